package sizing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// rounds is how often something is measured; the quickest round counts. Other work of the machine
// makes some rounds longer, and the first one uses memory that the process never had before.
const rounds = 5

// programStart is how long a daemon takes to start, without its filters: 10 to 80 ms of processor
// time were measured.
const programStart = 0.05

// MeasureStart adds to a plan how long a start takes, from one right after a checkpoint to one
// with the longest journal, which a clean stop leaves just as a crash does. It fills a smaller
// filter of the kind with at most sample items, writes it to a file in dir, reads it several
// times, and replays a journal each time. The file is in the cache of the system, and is removed
// at the end.
func MeasureStart(ctx context.Context, p *Plan, spec engine.Spec, contents kind.Contents, sample uint64, dir string) error {
	k, err := kinds.Of(spec.Kind)
	if err != nil {
		return err
	}
	sample = min(sample, contents.Items)
	spec = made(spec, sample+sample/8+1)
	dir, err = os.MkdirTemp(dir, "urifilter-size-")
	if err != nil {
		return fmt.Errorf("sample of a start: %w", err)
	}
	defer os.RemoveAll(dir)
	clock := timing.SystemClock()
	m, err := k.New(spec, engine.Identity{Seed: 1, Generation: 1, Created: time.Now()}, clock)
	if err != nil {
		return err
	}
	defer func() { _ = m.Free() }()
	var log slots
	m.Log(&log)
	if err := fill(ctx, m, sample, contents.IDBytes); err != nil {
		return err
	}
	path := filepath.Join(dir, k.File)
	if err := m.Write(disk.FS{}, path, 1); err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	var readings, replays []float64
	for range rounds {
		reading, replaying, err := start(ctx, k, spec, path, clock, log.all)
		if err != nil {
			return err
		}
		readings, replays = append(readings, reading), append(replays, replaying)
	}
	reading := slices.Min(readings) / float64(file.Size())
	replaying := slices.Min(replays) / float64(max(1, len(log.all)))
	p.Start = programStart + reading*float64(p.File)
	p.StartLongest = p.Start + replaying*float64(p.Journal)/kind.SlotBytes
	return nil
}

// start returns how many seconds it takes to read a filter, and to replay a journal.
func start(ctx context.Context, k kind.Kind, spec engine.Spec, path string, clock timing.Clock, log []bloom.Hash) (reading, replaying float64, err error) {
	began := time.Now()
	m, _, err := k.Read(spec, path, clock)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = m.Free() }()
	reading = time.Since(began).Seconds()
	began = time.Now()
	for len(log) > 0 {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		n := min(len(log), 1<<12) // even: entries of two slots stay whole
		if err := m.Apply(log[:n]); err != nil {
			return 0, 0, err
		}
		log = log[n:]
	}
	return reading, time.Since(began).Seconds(), nil
}

// made returns a spec like spec, with a capacity of n items if the kind has a capacity.
func made(spec engine.Spec, n uint64) engine.Spec {
	const capacity = "capacity"
	if k, _ := configs.KindOf(spec.Kind); k.Has(capacity) {
		spec, _ = spec.With(map[string]reflect.Value{capacity: reflect.ValueOf(n)})
	}
	return spec
}

// slots is a journal in memory.
type slots struct {
	mu  sync.Mutex
	all []bloom.Hash
}

func (s *slots) Append(keys []bloom.Hash, fresh []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if fresh[i] {
			s.all = append(s.all, key)
		}
	}
}

func (s *slots) AppendEntries(slots []bloom.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, slots...)
}

// fill puts n items into an empty memory, whatever it keeps: keys, keys that expire in a year,
// or documents.
func fill(ctx context.Context, m kind.Memory, n uint64, idBytes int) error {
	const batch = 1 << 12
	random := rand.New(rand.NewPCG(n, 1))
	keys, fresh := make([]bloom.Hash, batch), make([]bool, batch)
	docs, found := make([]engine.Document, batch), make([]engine.Comparison, batch)
	for done := uint64(0); done < n; done += batch {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		size := int(min(batch, n-done))
		var err error
		switch m := m.(type) {
		case kind.Expiring:
			randomKeys(random, keys[:size])
			_, err = m.AddFor(keys[:size], 365*24*time.Hour, fresh[:size])
		case kind.Keyed:
			randomKeys(random, keys[:size])
			_, err = m.Add(keys[:size], fresh[:size])
		case kind.Similar:
			randomDocuments(random, docs[:size], done, idBytes)
			m.Near(docs[:size], engine.Nearness{Remember: true, Distance: 0, Limit: 1}, found[:size])
		default:
			err = fmt.Errorf("a memory of the type %T: %w", m, ErrUnknown)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func randomKeys(random *rand.Rand, keys []bloom.Hash) {
	for i := range keys {
		keys[i] = bloom.Hash{Hi: random.Uint64(), Lo: random.Uint64()}
	}
}

func randomDocuments(random *rand.Rand, docs []engine.Document, first uint64, idBytes int) {
	for i := range docs {
		id := make([]byte, max(idBytes, 8))
		binary.BigEndian.PutUint64(id, first+uint64(i))
		docs[i] = engine.Document{ID: string(id), Fingerprint: random.Uint64()}
	}
}
