package powerloss

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// The notes that a run makes between the operations, about the named filter.
type (
	began    struct{ name string } // it may exist from now on
	created  struct{ filter }      // it exists
	ending   struct{ name string } // it may be gone
	dropped  struct{ name string } // it is gone
	clearing struct{ name string } // it exists, as it was or cleared
	cleared  struct{ filter }      // it is cleared
	told     struct {
		name string
		keys []bloom.Hash
	} // a caller was told that they are seen
	tried struct {
		name string
		keys []bloom.Hash
	} // they may be seen
	freed struct {
		name string
		keys []bloom.Hash
	} // a caller was told that they are new again, and no caller has taken them since
	flushed struct{} // all that was told so far is durable
)

// filter is what a run knows about a filter.
type filter struct {
	spec engine.Spec
	seed uint64
}

// script is what a run does.
type script struct {
	seed       uint64
	durability string
	checkpoint int64 // Options.CheckpointBytes
	steps      []step
}

func (s script) String() string {
	text := fmt.Sprintf("seed %d, durability %s, checkpoint after %d bytes:", s.seed, s.durability, s.checkpoint)
	for _, step := range s.steps {
		text += " " + step.String()
	}
	return text
}

type step struct {
	what string
	name string // of a filter
	n    int
}

func (s step) String() string { return fmt.Sprintf("%s(%s %d)", s.what, s.name, s.n) }

const segmentBytes = 8 << 10

func specOf(name string) engine.Spec {
	switch name {
	case "times":
		return engine.Spec{ID: 2, Name: name, Kind: "timing", Params: configs.Timing{Expire: 24 * time.Hour}}
	case "short":
		return engine.Spec{ID: 5, Name: name, Kind: "exact", Params: configs.Exact{Digest: configs.ShortDigest}}
	case "pages":
		return engine.Spec{ID: 4, Name: name, Kind: "simhash", Params: configs.Simhash{Distance: 3, FeatureHash: configs.FeatureXXH3}}
	case "other":
		return engine.Spec{ID: 3, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}}
	}
	return engine.Spec{ID: 1, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 300, ErrorRate: 1e-6, OnFull: "grow"}}
}

// all lists the filters that exist from the beginning.
var all = []string{"uri", "times", "short", "pages"}

// write makes up a script that is mostly about the named filters.
func write(seed uint64, length int, names ...string) script {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := script{seed: seed, durability: []string{"always", "interval", "none"}[seed%3]}
	s.checkpoint = []int64{1, 1 << 30}[rng.IntN(2)]
	for range length {
		name, held := names[rng.IntN(len(names))], []string{"times", "short"}[rng.IntN(2)]
		switch rng.IntN(26) {
		default:
			s.steps = append(s.steps, step{"add", name, []int{1, 3, 40, 130, 300, 700, 1100}[rng.IntN(7)]})
		case 8:
			s.steps = append(s.steps, step{"add together", name, 60})
		case 9:
			s.steps = append(s.steps, step{"has", name, 0})
		case 10, 11:
			s.steps = append(s.steps, step{"rest", "", 150})
		case 12:
			s.steps = append(s.steps, step{"rest", "", 1500})
		case 13:
			s.steps = append(s.steps, step{"merge", "uri", 50}, step{"has", "uri", 0}, step{"commit", "uri", 0})
		case 14:
			s.steps = append(s.steps, step{"restart", "", 0})
		case 15:
			s.steps = append(s.steps, step{"kill after operations", "", rng.IntN(30)}, step{"add", name, 200}, step{"reopen", "", 0}, step{"has", name, 0})
		case 16:
			s.steps = append(s.steps, step{"fail a sync", "", rng.IntN(4)}, step{"add", name, 200}, step{"add", name, 20}, step{"reopen", "", 0}, step{"has", name, 0})
		case 17:
			s.steps = append(s.steps, step{"drop", "other", 0}, step{"create filled", "other", 70})
		case 18:
			s.steps = append(s.steps, step{"drop", "other", 0}, step{"create", "other", 0}, step{"add", "other", 30})
		case 19:
			s.steps = append(s.steps, step{"drop", "other", 0}, step{"kill after operations", "", rng.IntN(16)},
				step{"create", "other", 0}, step{"reopen", "", 0}, step{"add", "other", 30})
		case 20:
			s.steps = append(s.steps, step{"clear", name, 0}, step{"add", name, 40})
		case 21:
			s.steps = append(s.steps, step{"kill after operations", "", rng.IntN(16)}, step{"clear", name, 0}, step{"add", name, 20}, step{"reopen", "", 0}, step{"has", name, 0})
		case 22:
			s.steps = append(s.steps, step{"reserve", held, []int{1, 40, 300}[rng.IntN(3)]})
		case 23:
			s.steps = append(s.steps, step{"reserve and commit", held, []int{1, 40, 300}[rng.IntN(3)]})
		case 24:
			s.steps = append(s.steps, step{"reserve and release", held, []int{1, 40, 300}[rng.IntN(3)]})
		case 25:
			what := []string{"reserve", "reserve and commit", "reserve and release"}[rng.IntN(3)]
			s.steps = append(s.steps, step{"kill after operations", "", rng.IntN(20)}, step{what, held, 60}, step{"reopen", "", 0}, step{"has", held, 0})
		}
	}
	return s
}

// run is a script in progress.
type run struct {
	t    *testing.T
	log  *Log
	s    script
	rng  *rand.Rand
	opt  embedded.Options
	next int // item

	store *embedded.Store
	sets  map[string]engine.Set

	countdown atomic.Int64 // operations until all of them fail; 0: never
	syncs     atomic.Int64 // syncs until one fails; 0: never
}

var errDead = errors.New("the process is dead")

func (r *run) hook(label, path string) disk.Fault {
	if n := r.countdown.Load(); n > 0 {
		if n == 1 || r.countdown.Add(-1) == 1 {
			return disk.Fault{Before: errDead}
		}
	}
	if r.syncs.Load() > 0 && (label == "journal-sync" || label == "journal-seal-sync") && r.syncs.Add(-1) == 0 {
		return disk.Fault{Before: syscall.EIO}
	}
	return disk.Fault{}
}

// perform runs the script in a folder. It returns what was done, and a clock that stands at
// the time when the script ended.
func perform(t *testing.T, s script, root string) (log *Log, clock timing.Clock) {
	log = NewLog(root)
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, log: log, s: s, rng: rand.New(rand.NewPCG(s.seed, 2))}
		r.opt = embedded.Options{
			Dir: filepath.Join(root, "var", "urifilter"), Durability: s.durability, CheckpointBytes: s.checkpoint,
			SegmentBytes: segmentBytes, Log: slog.New(slog.DiscardHandler),
			FS: disk.FS{Hook: r.hook, Record: log.Record},
		}
		r.open()
		for _, name := range all {
			r.create(name, 0)
		}
		for _, step := range s.steps {
			r.do(step)
			synctest.Wait()
		}
		_ = r.store.Close()
		now := time.Now()
		clock = timing.Clock{Elapsed: func() time.Duration { return 0 }, Wall: func() time.Time { return now }}
	})
	return log, clock
}

// open starts the daemon's store: what it then calls seen is durable.
func (r *run) open() {
	r.t.Helper()
	r.countdown.Store(0)
	r.syncs.Store(0)
	store, err := embedded.Open(r.opt)
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, r.sets = store, map[string]engine.Set{}
	sets, err := store.Load(context.Background())
	if err != nil {
		r.t.Fatalf("a start in the middle of the run: %v\n%v", err, r.s)
	}
	for spec, set := range sets {
		r.sets[spec.Name] = byKeys(set)
		r.log.Note(created{filter{spec, set.Seed()}})
	}
}

func (r *run) keys(set engine.Set, n int) []bloom.Hash {
	r.next += n
	return storetest.Keys(set, r.next-n, n)
}

func (r *run) do(s step) {
	ctx := context.Background()
	set := r.sets[s.name]
	switch s.what {
	case "add":
		r.add(s.name, s.n)
	case "add together":
		var wg sync.WaitGroup
		for range 3 {
			keys := r.keys(set, s.n)
			wg.Go(func() { r.addKeys(s.name, keys) })
		}
		wg.Wait()
	case "reserve", "reserve and commit", "reserve and release":
		r.reserve(s, set.(engine.Reserving))
	case "has":
		r.has(s.name)
	case "rest":
		time.Sleep(time.Duration(s.n) * time.Millisecond)
		synctest.Wait()
		if r.s.durability == "interval" && s.n > 1000 && r.healthy() {
			r.log.Note(flushed{})
		}
	case "merge":
		r.merge(set, s)
	case "commit":
		if err := set.(engine.BitMap).Commit(ctx); err == nil && r.healthy() {
			r.log.Note(committed{s.name})
		}
	case "restart":
		if err := r.store.Close(); err == nil {
			r.log.Note(flushed{})
		}
		r.open()
	case "kill after operations":
		r.countdown.Store(int64(s.n) + 2)
	case "fail a sync":
		r.syncs.Store(int64(s.n) + 1)
	case "reopen":
		if r.countdown.Load() == 0 {
			r.countdown.Store(1) // all operations fail from now on, as if the process were killed
		}
		_ = r.store.Close()
		r.open()
		for _, name := range all {
			r.has(name)
		}
		r.log.Note(flushed{}) // what a start finds is on the disk
	case "create":
		r.create(s.name, 0)
	case "create filled":
		r.create(s.name, s.n)
	case "drop":
		if set == nil {
			return
		}
		r.log.Note(ending{s.name})
		if err := r.store.Drop(ctx, specOf(s.name)); err == nil {
			r.log.Note(dropped{s.name})
		}
		delete(r.sets, s.name)
	case "clear":
		if set != nil {
			r.clear(s.name, set)
		}
	default:
		r.t.Fatalf("step %v", s)
	}
}

func (r *run) clear(name string, set engine.Set) {
	spec := specOf(name)
	r.log.Note(clearing{name})
	b := engine.Identity{Seed: r.rng.Uint64(), Generation: set.Stats().Generation + 1, Created: time.Now()}
	err := r.store.Clear(context.Background(), spec, b, func(now engine.Set) { r.sets[name] = byKeys(now) })
	if err == nil {
		r.log.Note(cleared{filter{spec, r.sets[name].Seed()}})
	} else if r.healthy() {
		r.log.Note(created{filter{spec, set.Seed()}})
	}
}

// committed notes that what was merged, and all that was told of the filter, is durable.
type committed struct{ name string }

func (r *run) healthy() bool { return r.store.Ready(context.Background()) == nil }

func (r *run) add(name string, n int) {
	if set := r.sets[name]; set != nil {
		r.addKeys(name, r.keys(set, n))
	}
}

func (r *run) addKeys(name string, keys []bloom.Hash) {
	r.log.Note(tried{name, keys})
	if _, err := r.sets[name].Add(context.Background(), keys, make([]bool, len(keys))); err == nil {
		r.log.Note(told{name, keys})
	}
}

// reserve reserves keys for longer than the run lasts: no other caller may be given them. Half of
// them are settled if the step says so.
func (r *run) reserve(s step, set engine.Reserving) {
	ctx, keys := context.Background(), r.keys(set, s.n)
	r.log.Note(tried{s.name, keys})
	id := engine.Reservation{Hi: r.rng.Uint64(), Lo: r.rng.Uint64()}
	if _, err := set.Reserve(ctx, id, keys, engine.MaxLease, make([]bool, len(keys))); err != nil {
		return
	}
	half := (len(keys) + 1) / 2
	lost := make([]bool, half)
	switch s.what {
	case "reserve and commit":
		if _, err := set.Commit(ctx, id, keys[:half], 0, lost); err != nil {
			return
		}
	case "reserve and release":
		r.log.Note(told{s.name, keys[half:]})
		if _, err := set.Release(ctx, id, keys[:half], lost); err == nil {
			r.log.Note(freed{s.name, keys[:half]})
		}
		return
	}
	r.log.Note(told{s.name, keys})
}

// has asks about all items, and notes those that are reported as seen.
func (r *run) has(name string) {
	set := r.sets[name]
	if set == nil {
		return
	}
	keys := storetest.Keys(set, 0, r.next)
	fresh := make([]bool, len(keys))
	if err := set.Has(context.Background(), keys, fresh); err != nil {
		return
	}
	r.log.Note(told{name, seenOf(keys, fresh)})
}

func seenOf(keys []bloom.Hash, fresh []bool) (seen []bloom.Hash) {
	for i, key := range keys {
		if !fresh[i] {
			seen = append(seen, key)
		}
	}
	return seen
}

// merge merges bits into a layer that the filter may not have yet.
func (r *run) merge(set engine.Set, s step) {
	bits := set.(engine.BitMap)
	h := bits.Header()
	h.Layers = min(h.Layers+uint32(r.rng.IntN(2)), bloom.MaxLayers)
	other, err := bloom.NewGrowing(h)
	if err != nil {
		r.t.Fatal(err)
	}
	defer other.Close()
	keys := r.keys(set, s.n)
	other.AddAsItWas(keys, make([]bool, len(keys)))
	r.log.Note(tried{s.name, keys})
	for i := range h.Stripes() {
		if bits.MergeStripe(context.Background(), i, other.Stripe(i, make([]byte, bloom.StripeBytes))) != nil {
			return
		}
	}
	r.log.Note(merged{s.name, keys})
}

// merged notes keys that are durable after Commit.
type merged struct {
	name string
	keys []bloom.Hash
}

// create makes a filter, with n items in it if n is not 0.
func (r *run) create(name string, n int) {
	if r.sets[name] != nil {
		return
	}
	ctx, spec := context.Background(), specOf(name)
	r.log.Note(began{name})
	var set engine.Set
	var err error
	var keys []bloom.Hash
	if n == 0 {
		set, err = r.store.Create(ctx, spec, engine.Identity{Seed: r.rng.Uint64(), Generation: 1, Created: time.Now()})
	} else {
		h := storetest.Header(spec)
		h.Seed = r.rng.Uint64()
		set, err = r.store.CreateFilled(ctx, spec, h, func(ctx context.Context, into engine.Sink) error {
			m, err := bloom.New(h)
			if err != nil {
				return err
			}
			defer m.Close()
			for range n {
				keys = append(keys, bloom.Sum(h.Seed, fmt.Appendf(nil, "filled/%d", len(keys))))
			}
			m.Add(keys, make([]bool, n))
			return errors.Join(into.MergeStripe(ctx, 0, m.Stripe(0, make([]byte, bloom.StripeBytes))), into.Commit(ctx))
		})
	}
	if err == nil {
		r.sets[name] = byKeys(set)
		r.log.Note(created{filter{spec, set.Seed()}})
		r.log.Note(merged{name, keys})
		r.log.Note(committed{name})
	}
}
