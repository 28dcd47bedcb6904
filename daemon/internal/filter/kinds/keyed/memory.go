package keyed

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Memory implements kind.Reserving with a table. An entry of the journal has two slots: a key, and
// with deadlines its deadline and when that was given, else Hi: table.Kept if the key was added,
// table.Still if it was forgotten. Or it is an entry of package table about reservations. Short
// keys share entries, see there. The last entry of a key counts, so entries that are already in the
// file do no harm.
type Memory struct {
	*timing.Table
	Head   Header // of the file that was read
	format Format
	blocks int // read

	reserves atomic.Bool // see kind.Reserving

	// FileBytes is the size of the last file. It was written at a moment of the table's time, when
	// the machine's clock was ahead of that by lag.
	FileBytes, writtenAt atomic.Int64
	lag                  timing.Lag
}

var _ kind.Reserving = (*Memory)(nil)

const (
	// wasteEvery and waste: if file and journal have this many bytes, and four times the size
	// of the unexpired items, they are rewritten after this time to free disk space.
	wasteEvery = time.Minute
	waste      = 1 << 20
)

// New makes an empty memory.
func (f Format) New(b engine.Identity, clock timing.Clock) *Memory {
	return f.memory(Header{Seed: b.Seed, Generation: b.Generation, Created: b.Created, Short: f.Short}, timing.Reading{}, clock)
}

func (f Format) memory(head Header, at timing.Reading, clock timing.Clock) *Memory {
	m := &Memory{Head: head, format: f}
	switch {
	case f.Deadlines:
		m.Table = timing.Resume(clock, at)
	case f.Short:
		m.Table = timing.Still(clock, at, table.NewShort())
	default:
		m.Table = timing.Still(clock, at, table.New())
	}
	m.Leases(engine.KeptSettled)
	m.reserves.Store(head.Reserving)
	return m
}

// Add implements kind.Keyed. With deadlines it remembers keys for as long as possible: the store
// gives each call its time.
func (m *Memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return m.Table.Add(keys, configs.MaxExpire, fresh)
}

// Log implements kind.Memory, and so do the five that follow.
func (m *Memory) Log(j kind.Journal)             { m.OnChange(j.AppendEntries) }
func (m *Memory) Seed() uint64                   { return m.Head.Seed }
func (m *Memory) Checked() int                   { return m.blocks }
func (m *Memory) Bytes() uint64                  { return m.Table.Memory() }
func (m *Memory) MemoryFor(o engine.More) uint64 { return m.Table.MemoryFor(o.Items, o.Reserved) }
func (m *Memory) Free() error                    { return m.Close() }

// Stats implements kind.Memory.
func (m *Memory) Stats() engine.Stats {
	st := m.Table.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: m.Head.Generation}
}

// Digests implements kind.Forgetful.
func (m *Memory) Digests(i int, dst []engine.Digest) []engine.Digest {
	now := m.At()
	for _, e := range m.Part(i, now, nil) {
		d := engine.Digest{Key: e.Key}
		if m.format.Deadlines {
			d.Left = time.Duration(e.Until-now) * time.Millisecond
		}
		dst = append(dst, d)
	}
	return dst
}

// Reserve implements kind.Reserving.
func (m *Memory) Reserve(id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) engine.Reserved {
	taken, others := m.Take(bloom.Hash(id), keys, m.At(), lease.Milliseconds(), fresh)
	return engine.Reserved{Fresh: taken, Held: others}
}

// Commit implements kind.Reserving.
func (m *Memory) Commit(id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	now, until := m.Span(expire)
	done, known, err := m.Table.Commit(bloom.Hash(id), keys, now, until, lost)
	if err == nil && !known {
		err = engine.ErrNoReservation
	}
	return engine.Settled(done), err
}

// Release implements kind.Reserving.
func (m *Memory) Release(id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	done, known := m.Table.Release(bloom.Hash(id), keys, lost)
	if !known {
		return engine.Settled{}, engine.ErrNoReservation
	}
	return engine.Settled(done), nil
}

// Committable implements kind.Reserving.
func (m *Memory) Committable(id engine.Reservation) []bloom.Hash {
	return m.Reserved(bloom.Hash(id), table.Released)
}

// Releasable implements kind.Reserving.
func (m *Memory) Releasable(id engine.Reservation) []bloom.Hash {
	return m.Reserved(bloom.Hash(id), table.Committed)
}

// FileReserves and SetFileReserves implement kind.Reserving.
func (m *Memory) FileReserves() bool { return m.reserves.Load() }
func (m *Memory) SetFileReserves()   { m.reserves.Store(true) }

// Stale implements kind.Sweeping: deadlines and running leases would end too soon or too late after
// a restart, or the disk has much that has expired.
func (m *Memory) Stale(journaled int64) bool {
	now := m.Read()
	if !m.format.Deadlines {
		return m.Reservations() > 0 && m.lag.Departed(now)
	}
	onDisk := m.FileBytes.Load() + journaled
	return m.lag.Departed(now) ||
		onDisk > waste && now.Table-m.writtenAt.Load() > wasteEvery.Milliseconds() && onDisk/4 > int64(m.Stats().Items)*int64(m.format.EntryBytes())
}

// Write implements kind.Memory.
func (m *Memory) Write(fs disk.FS, path string, from uint64) error {
	h, now, seen := m.Head, m.Read(), int64(table.Still)
	h.From, h.Reserving = from, m.reserves.Load()
	if m.format.Deadlines || h.Reserving {
		h.Time, h.Wall = now.Table, now.Wall
	}
	if m.format.Deadlines {
		seen = now.Table
	}
	size, err := m.format.write(fs, path, h, m.Table.Table, seen)
	if err == nil {
		m.wrote(now, size)
	}
	return err
}

// wrote notes that the file has this many bytes.
func (m *Memory) wrote(at timing.Reading, size int64) {
	m.FileBytes.Store(size)
	m.writtenAt.Store(at.Table)
	m.lag.Note(at)
}

// Read reads the file into a new memory whose time goes on from that of the file. Damage is an
// error that wraps bloom.ErrCorrupt.
func (f Format) Read(path string, clock timing.Clock) (m *Memory, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
			if m != nil {
				err = errors.Join(err, m.Free())
			}
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var keys *table.Loader
	blocks, err := f.decode(bufio.NewReaderSize(file, int(min(st.Size(), 1<<20))), st.Size(), func(h Header) {
		at := timing.Reading{Table: h.Time, Wall: h.Wall} // zero without deadlines if nothing was reserved
		f.Short = h.Short
		m = f.memory(h, at, clock)
		m.wrote(at, st.Size())
		keys = m.Load(m.At())
	}, func(all []table.Entry) error { return keys.Put(all...) }, func(r table.Reservation) error {
		if err := keys.Flush(); err != nil { // the entries come first
			return err
		}
		return m.Restore(r)
	})
	if keys != nil {
		err = errors.Join(err, keys.Flush())
	}
	if err == nil {
		m.blocks = blocks
	}
	return m, err
}
