package embedded

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// timed is a filter of the kind timing.
type timed struct {
	*kept
	*entries
}

var (
	_ engine.Timed = (*timed)(nil)
	_ perishable   = (*entries)(nil)
)

func timingKind(clock timing.Clock) kind {
	return kind{
		file: entriesName, width: 2, parts: timing.Groups,
		create: func(_ engine.Spec, b engine.Birth) (memory, error) {
			return &entries{
				head:  entriesHeader{seed: b.Seed, generation: b.Generation, created: b.Created},
				table: timing.New(clock),
			}, nil
		},
		read: func(path string) (memory, uint64, error) {
			m, err := readEntries(path, clock)
			if err != nil {
				return nil, 0, err
			}
			return m, m.head.from, nil
		},
		serve: func(k *kept, m memory) engine.Set {
			e := m.(*entries)
			e.table.OnAdd(k.journal.AppendEntries)
			return &timed{kept: k, entries: e}
		},
	}
}

// entries is a table as memory.
type entries struct {
	head  entriesHeader // clocks and from are those of the last file
	table *timing.Table
	read  int // blocks

	// Of the last file: how many bytes it has, when it was written by the table's time,
	// and how far the machine's clock was ahead of that.
	size, writtenAt, ahead atomic.Int64
}

const (
	// clockStep is how far the machine's clock may depart from the table's time before
	// the file is written anew, so that a restart finds out what time has passed by the
	// machine's clock as it is now.
	clockStep = time.Second
	// wasteEvery and waste: a file and journal of so many bytes, four times what has not
	// expired, are written anew after so long, to give the disk back.
	wasteEvery = time.Minute
	waste      = 1 << 20
)

func (e *entries) bytes() uint64 { return e.table.Memory() }
func (e *entries) sweep() error  { return e.table.Sweep() }
func (e *entries) free() error   { return e.table.Close() }

func (e *entries) stat() stat {
	return stat{generation: e.head.generation, items: e.table.Stats().Items, blocks: e.read}
}

// apply takes in pairs of slots: a key; its deadline and when that was given. The last
// deadline of a key counts.
func (e *entries) apply(slots []bloom.Hash) error {
	for ; len(slots) > 1; slots = slots[2:] {
		e.table.Advance(int64(slots[1].Lo))
		if err := e.table.Put(timing.Entry{Key: slots[0], Until: int64(slots[1].Hi)}); err != nil {
			return err
		}
	}
	return nil
}

func (e *entries) write(fs durable.FS, path string, from uint64) error {
	h := e.head
	h.from, h.clocks = from, e.table.Read()
	size, err := writeEntries(fs, path, e.table, h)
	if err == nil {
		e.wrote(h.clocks, size)
	}
	return err
}

// wrote notes that there is a file of so many bytes.
func (e *entries) wrote(at timing.Reading, size int64) {
	e.size.Store(size)
	e.writtenAt.Store(at.Table)
	e.ahead.Store(at.Wall - at.Table)
}

func (e *entries) stale(journaled int64) bool {
	now := e.table.Read()
	if step := now.Wall - now.Table - e.ahead.Load(); max(step, -step) > clockStep.Milliseconds() {
		return true
	}
	onDisk := e.size.Load() + journaled
	return onDisk > waste && now.Table-e.writtenAt.Load() > wasteEvery.Milliseconds() && onDisk/4 > int64(e.table.Stats().Items)*entryBytes
}

// Add implements engine.Set.
func (s *timed) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	if s.spec.Expire == 0 {
		return 0, fmt.Errorf("filter %s: neither filter nor call says when items expire", s.spec.Name)
	}
	return s.AddFor(ctx, keys, s.spec.Expire, fresh)
}

// AddFor implements engine.Timed.
func (s *timed) AddFor(_ context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	return s.add(len(keys), func() (int, error) {
		n, err := s.table.Add(keys, expire, fresh)
		if err != nil { // some were added, and who sees them would wait for the rest
			s.store.fail(fmt.Errorf("filter %s: %w", s.spec.Name, err))
			return 0, fmt.Errorf("%w: %w", engine.ErrFailed, err)
		}
		return n, nil
	})
}

// Has implements engine.Set.
func (s *timed) Has(_ context.Context, keys []bloom.Hash, fresh []bool) error {
	return s.has(func() { s.table.Has(keys, fresh) })
}

// Memory implements engine.Timed.
func (s *timed) Memory() uint64 { return s.table.Memory() }

// Seed implements engine.Set.
func (s *timed) Seed() uint64 { return s.head.seed }

// Stats implements engine.Set.
func (s *timed) Stats() engine.Stats {
	st := s.table.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: s.head.generation}
}
