// Package exact is the kind exact: items are remembered by their 128-bit hashes until they are
// forgotten, any number of them. The table is of package table; here is how it is made of a
// spec, and what goes to its file and to the journal.
package exact

import (
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/kinds/entryfile"
	"github.com/cr-clawer/urifilter/daemon/internal/table"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// Kind is the kind exact.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "exact", File: "hashes", Width: 2, Parts: table.Groups, Checked: "hashes: %d blocks checked",
		New: func(_ engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			return &memory{head: entryfile.Header{Seed: b.Seed, Generation: b.Generation, Created: b.Created}, keys: table.New()}, nil
		},
		Read: read,
	}
}

var format = entryfile.Format{Magic: [8]byte{'U', 'R', 'I', 'E', 'X', 'A', 'C', 'T'}}

// memory is a table whose time stands still. An entry of the journal is a key and, in the
// second slot, Hi: table.Kept where it was added and table.Still where it was forgotten. The
// last one of a key counts, so that those that the file has already do no harm.
type memory struct {
	head entryfile.Header // of the file that was read
	keys *table.Table
	read int // blocks
}

var _ kind.Forgetful = (*memory)(nil)

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return m.keys.Add(keys, table.Still, table.Kept, fresh)
}

func (m *memory) Forget(keys []bloom.Hash) int        { return m.keys.Remove(keys, table.Still) }
func (m *memory) Has(keys []bloom.Hash, fresh []bool) { m.keys.Has(keys, table.Still, fresh) }
func (m *memory) Log(j kind.Journal)                  { m.keys.OnChange(j.AppendEntries) }
func (m *memory) Seed() uint64                        { return m.head.Seed }
func (m *memory) Checked() int                        { return m.read }
func (m *memory) Bytes() uint64                       { return m.keys.Memory() }
func (m *memory) Free() error                         { return m.keys.Close() }

func (m *memory) Stats() engine.Stats {
	st := m.keys.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: m.head.Generation}
}

// Apply takes in pairs of slots, see memory.
func (m *memory) Apply(slots []bloom.Hash) error {
	for ; len(slots) > 1; slots = slots[2:] {
		if err := m.Put(table.Entry{Key: slots[0], Until: int64(slots[1].Hi)}); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Write(fs durable.FS, path string, from uint64) error {
	h := m.head
	h.From = from
	_, err := format.Write(fs, path, h, func(i int, dst []table.Entry) []table.Entry { return m.keys.Part(i, table.Still, dst) })
	return err
}

func read(_ engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) {
	m := &memory{keys: table.New()}
	blocks, _, err := format.Read(path, func(h entryfile.Header) entryfile.Receiver {
		m.head = h
		return m
	})
	if err != nil {
		return nil, 0, err
	}
	m.read = blocks
	return m, m.head.From, nil
}

// Reserve, Put and Close implement entryfile.Receiver.

func (m *memory) Reserve(n int) error              { return m.keys.Reserve(n, table.Still) }
func (m *memory) Put(entries ...table.Entry) error { return m.keys.Put(table.Still, entries...) }
func (m *memory) Close() error                     { return m.keys.Close() }
