// Package exact is the kind exact: any number of items are remembered by their hashes, of 128 bits
// or the first 64 of them, until they are forgotten. The table is in package table; this package makes it from a spec,
// and defines the contents of its file and of its journal.
package exact

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/entryfile"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind exact.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "exact", Size: size, File: "hashes", Width: 2, Parts: table.Groups, Checked: "hashes: %d blocks checked",
		New: func(spec engine.Spec, b engine.Identity, clock timing.Clock) (kind.Memory, error) {
			head := entryfile.Header{Seed: b.Seed, Generation: b.Generation, Created: b.Created, Short: spec.DigestBits() < 128}
			return newFrom(head, timing.Begin(clock)), nil
		},
		Read: read,
	}
}

func formatOf(short bool) entryfile.Format {
	return entryfile.Format{Magic: [8]byte{'U', 'R', 'I', 'E', 'X', 'A', 'C', 'T'}, Short: short}
}

func newTable(short bool) *table.Table {
	if short {
		return table.NewShort()
	}
	return table.New()
}

// memory is a table whose time stands still, except for its reservations. An entry of the
// journal is a key and, in the second slot, Hi: table.Kept if the key was added, table.Still if
// it was forgotten; or an entry of package table about reservations. Short keys share entries, see
// there. The last entry of a key counts, so entries that are already in the file do no harm.
type memory struct {
	head entryfile.Header // of the file that was read
	keys *table.Table
	time *timing.Timeline // of reservations
	read int              // blocks

	reserves atomic.Bool // see kind.Reserving
	lag      timing.Lag
}

var _ kind.Reserving = (*memory)(nil)

func newFrom(head entryfile.Header, time *timing.Timeline) *memory {
	m := &memory{head: head, keys: newTable(head.Short), time: time}
	m.keys.Leases(time.Now, engine.KeptSettled)
	m.reserves.Store(head.Reserving)
	return m
}

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return m.keys.Add(keys, table.Still, table.Kept, fresh)
}

func (m *memory) Forget(keys []bloom.Hash) int        { return m.keys.Remove(keys, table.Still) }
func (m *memory) Has(keys []bloom.Hash, fresh []bool) { m.keys.Has(keys, table.Still, fresh) }
func (m *memory) Log(j kind.Journal)                  { m.keys.OnChange(j.AppendEntries) }
func (m *memory) Seed() uint64                        { return m.head.Seed }
func (m *memory) Checked() int                        { return m.read }
func (m *memory) Bytes() uint64                       { return m.keys.Memory() }
func (m *memory) MemoryFor(o engine.More) uint64      { return m.keys.MemoryFor(o.Items, o.Reserved) }
func (m *memory) Free() error                         { return m.keys.Close() }

func (m *memory) Stats() engine.Stats {
	st := m.keys.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: m.head.Generation}
}

// Digests implements kind.Forgetful.
func (m *memory) Digests(i int, dst []engine.Digest) []engine.Digest {
	for _, e := range m.keys.Part(i, table.Still, nil) {
		dst = append(dst, engine.Digest{Key: e.Key})
	}
	return dst
}

// Apply applies pairs of slots, see memory.
func (m *memory) Apply(slots []bloom.Hash) error {
	return m.keys.Apply(slots, func() int64 { return table.Still }, m.time.Advance)
}

func (m *memory) Write(fs disk.FS, path string, from uint64) error {
	h, now := m.head, m.time.Read()
	h.From, h.Reserving = from, m.reserves.Load()
	if h.Reserving {
		h.Time, h.Wall = now.Table, now.Wall
	}
	_, err := formatOf(h.Short).Write(fs, path, h, m.keys, table.Still)
	if err == nil {
		m.lag.Note(now)
	}
	return err
}

func read(spec engine.Spec, path string, clock timing.Clock) (kind.Memory, uint64, error) {
	var m *memory
	blocks, _, err := formatOf(false).Read(path, func(h entryfile.Header) entryfile.Receiver {
		at := timing.Reading{Table: h.Time, Wall: h.Wall} // zero if nothing was reserved
		m = newFrom(h, timing.GoOn(clock, at))
		m.lag.Note(at)
		return receiver{m.keys.Load(table.Still), m}
	})
	if err != nil {
		return nil, 0, err
	}
	if spec.Params != nil && m.head.Short != (spec.DigestBits() < 128) {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w: it has other digests than those of %d bits that the filter has", path, bloom.ErrCorrupt, spec.DigestBits()), m.Free())
	}
	m.read = blocks
	return m, m.head.From, nil
}

// receiver implements entryfile.Receiver.
type receiver struct {
	*table.Loader
	memory *memory
}

func (r receiver) Restore(part table.Reservation) error { return r.memory.keys.Restore(part) }
func (r receiver) Close() error                         { return r.memory.keys.Close() }
