// Package timing is the kind timing: items are remembered until their deadline, exactly.
// The table of deadlines is in the package timing outside the kinds; this package makes it
// from a spec, and decides when its file is written.
package timing

import (
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/entryfile"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind timing.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "timing", Size: size, File: "entries", Width: 2, Parts: timing.Groups, Checked: "entries: %d blocks checked",
		New: func(_ engine.Spec, b engine.Identity, clock timing.Clock) (kind.Memory, error) {
			return newEntries(entryfile.Header{Seed: b.Seed, Generation: b.Generation, Created: b.Created}, timing.New(clock)), nil
		},
		Read: read,
	}
}

var format = entryfile.Format{Magic: [8]byte{'U', 'R', 'I', 'T', 'I', 'M', 'E', 'S'}, Deadlines: true}

// entries implements kind.Memory with a table.
type entries struct {
	head  entryfile.Header // of the file that was read
	table *timing.Table
	read  int // blocks

	reserves atomic.Bool // see kind.Reserving

	// The last file: its size in bytes, when it was written by the table's time, and how far
	// the machine's clock was ahead of that.
	size, writtenAt atomic.Int64
	lag             timing.Lag
}

var _ kind.Expiring = (*entries)(nil)

func newEntries(head entryfile.Header, t *timing.Table) *entries {
	t.Leases(engine.KeptSettled)
	e := &entries{head: head, table: t}
	e.reserves.Store(head.Reserving)
	return e
}

const (
	// wasteEvery and waste: if file and journal have this many bytes, and four times the size
	// of the unexpired items, they are rewritten after this time to free disk space.
	wasteEvery = time.Minute
	waste      = 1 << 20
)

// Add remembers keys for as long as possible: the store gives each call its time.
func (e *entries) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return e.table.Add(keys, configs.MaxExpire, fresh)
}

func (e *entries) AddFor(keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	return e.table.Add(keys, expire, fresh)
}

func (e *entries) Forget(keys []bloom.Hash) int        { return e.table.Forget(keys) }
func (e *entries) Has(keys []bloom.Hash, fresh []bool) { e.table.Has(keys, fresh) }
func (e *entries) Log(j kind.Journal)                  { e.table.OnChange(j.AppendEntries) }
func (e *entries) Seed() uint64                        { return e.head.Seed }
func (e *entries) Checked() int                        { return e.read }
func (e *entries) Bytes() uint64                       { return e.table.Memory() }
func (e *entries) MemoryFor(m engine.More) uint64      { return e.table.MemoryFor(m.Items, m.Reserved) }
func (e *entries) Sweep() error                        { return e.table.Sweep() }
func (e *entries) Free() error                         { return e.table.Close() }

func (e *entries) Stats() engine.Stats {
	st := e.table.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: e.head.Generation}
}

// Digests implements kind.Forgetful.
func (e *entries) Digests(i int, dst []engine.Digest) []engine.Digest {
	now := e.table.Now()
	for _, of := range e.table.Keys().Part(i, now, nil) {
		dst = append(dst, engine.Digest{Key: of.Key, Left: time.Duration(of.Until-now) * time.Millisecond})
	}
	return dst
}

// Apply applies pairs of slots: a key; its deadline and when that was given. The last
// deadline of a key counts. Package table defines the entries about reservations.
func (e *entries) Apply(slots []bloom.Hash) error { return e.table.Apply(slots) }

func (e *entries) Write(fs disk.FS, path string, from uint64) error {
	h, now := e.head, e.table.Read()
	h.From, h.Time, h.Wall, h.Reserving = from, now.Table, now.Wall, e.reserves.Load()
	size, err := format.Write(fs, path, h, e.table.Keys(), now.Table)
	if err == nil {
		e.wrote(now, size)
	}
	return err
}

// read reads the file into a new table whose time is that of now.
func read(_ engine.Spec, path string, clock timing.Clock) (kind.Memory, uint64, error) {
	var m *entries
	var at timing.Reading
	blocks, size, err := format.Read(path, func(h entryfile.Header) entryfile.Receiver {
		at = timing.Reading{Table: h.Time, Wall: h.Wall}
		m = newEntries(h, timing.Resume(clock, at))
		return receiver{m.table.Load(), m.table}
	})
	if err != nil {
		return nil, 0, err
	}
	m.read = blocks
	m.wrote(at, size)
	return m, m.head.From, nil
}

// receiver implements entryfile.Receiver.
type receiver struct {
	*table.Loader
	table *timing.Table
}

func (r receiver) Restore(part table.Reservation) error { return r.table.Keys().Restore(part) }
func (r receiver) Close() error                         { return r.table.Close() }

// wrote notes that the file has this many bytes.
func (e *entries) wrote(at timing.Reading, size int64) {
	e.size.Store(size)
	e.writtenAt.Store(at.Table)
	e.lag.Note(at)
}

func (e *entries) Stale(journaled int64) bool {
	now := e.table.Read()
	if e.lag.Departed(now) {
		return true
	}
	onDisk := e.size.Load() + journaled
	return onDisk > waste && now.Table-e.writtenAt.Load() > wasteEvery.Milliseconds() && onDisk/4 > int64(e.table.Stats().Items)*int64(format.EntryBytes())
}
