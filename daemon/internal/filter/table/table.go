// Package table keeps keys in memory with all their 128 bits, either each with a deadline or all
// without, or with their first 64 bits and without deadlines. It uses open addressing in 256 parts
// that grow one by one, under 16 locks. With deadlines a key takes about 26 bytes, without 17 to
// 19, and 8 to 9 where it has 64 bits.
//
// It reads no clock (the caller passes the time), opens no files and knows no items.
package table

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

const (
	parts = 256 // by the first byte of a key
	locks = 16  // each for the same number of neighbouring parts
	share = parts / locks

	// touched is how many keys are looked up ahead: their slots, on the way from memory,
	// fit the first-level cache.
	touched = 32
)

// Groups is the largest number of calls of OnChange's function by one Add or Remove.
const Groups = locks

// Parts is the number of parts for Part.
const Parts = parts

// Table holds keys and their deadlines. It is safe for concurrent use.
//
// Times are milliseconds that count from the table's origin. A key with the deadline d is
// seen while the time is less than d.
type Table struct {
	origin   int64 // a millisecond before the first time; deadlines in slots count from it
	onChange func(entries []bloom.Hash)
	scratch  sync.Pool // of *group

	lock  [locks]paddedLock
	parts [parts]part                // guarded by lock[i/share]
	held  [locks]map[bloom.Hash]hold // guarded by lock[i]; nil if empty
	bytes atomic.Int64
	swept int // the part that Sweep begins with; guarded by sweeping

	leases leases

	shape   shape // of parts, unless the table is being loaded
	loading bool  // see Loader

	sweeping sync.Mutex
}

// paddedLock is seven cache lines: that of the lock, and how full its parts are. Who unlocks it tells the
// latter, so that MemoryFor, which is called before every batch, need not wait for callers who add.
type paddedLock struct {
	sync.RWMutex
	parts []part
	_     [16]byte
	fills [share]fill
}

// Unlock ends a change.
func (l *paddedLock) Unlock() {
	for i := range l.parts {
		l.fills[i].set(&l.parts[i])
	}
	l.RWMutex.Unlock()
}

// Entry is a key of a Table and the time until which it is seen.
type Entry struct {
	Key   bloom.Hash
	Until int64
}

// The times of a table without deadlines, whose time stands still: its keys are seen until
// Kept.
const (
	Still = 0
	Kept  = 1
)

// New makes an empty table without deadlines.
func New() *Table { return newTable(withoutDeadlines, Still-1) }

// NewShort makes an empty table without deadlines that knows Hi of keys only: for Lo it has 0.
func NewShort() *Table { return newTable(short, Still-1) }

// NewTimed makes an empty table with deadlines, whose time begins with now and spans 34
// years: anything later is treated as never.
func NewTimed(now int64) *Table { return newTable(withDeadlines, now-1) }

func newTable(s shape, origin int64) *Table {
	t := &Table{origin: origin, shape: s}
	t.scratch.New = func() any { return new(group) }
	for i := range t.parts {
		t.parts[i] = part{shape: s, soonest: maxDeadline, total: &t.bytes}
	}
	for l := range t.lock {
		t.lock[l].parts = t.parts[l*share : (l+1)*share]
	}
	return t
}

// Close frees the memory. The table must not be used afterwards.
func (t *Table) Close() error {
	var errs []error
	for i := range t.parts {
		l := &t.lock[i/share]
		l.Lock()
		errs = append(errs, t.parts[i].drop())
		t.held[i/share] = nil
		l.Unlock()
	}
	t.leases.mu.Lock()
	defer t.leases.mu.Unlock()
	clear(t.leases.of)
	t.leases.due = nil
	t.leases.bytes.Store(0)
	return errors.Join(errs...)
}

// OnChange sets the function that Add and Remove call under a lock, before other callers can
// see their changes. It gets two elements for each key: the key; and until when it is seen
// (Hi) with the time of the call (Lo). These times are equal for a removed key. The entries of
// Take, Commit and Release, and those of a short table, have other forms, and are for Apply. f may
// not keep them. OnChange is called once, before the first Add.
func (t *Table) OnChange(f func(entries []bloom.Hash)) {
	t.onChange = f
	if t.shape.lo == 0 {
		t.onChange = func(entries []bloom.Hash) { f(pack(entries)) }
	}
	t.loaded()
}

// ticks converts a time to that of slots: 1, the table's first moment, for any earlier time.
func (t *Table) ticks(at int64) uint64 {
	return uint64(min(max(at-t.origin, 1), maxDeadline))
}

// mark returns the value that goes with a key to OnChange's function.
func (t *Table) mark(until, now uint64) bloom.Hash {
	return bloom.Hash{Hi: uint64(t.origin + int64(until)), Lo: uint64(t.origin + int64(now))}
}

// Add adds the keys that are neither seen at the time now nor reserved, to be seen until a time.
// fresh[i] says whether keys[i] was added, and n is their number. Seen keys keep their deadline.
// Of equal keys, in one call or in several at the same time, only the first is fresh.
// len(fresh) must be len(keys). After an error, which means that the system refused memory, some
// of the keys have been added.
func (t *Table) Add(keys []bloom.Hash, now, until int64, fresh []bool) (n int, err error) {
	_ = fresh[:len(keys)]
	g := t.group(keys)
	defer t.scratch.Put(g)
	from, to := t.ticks(now), t.ticks(until)
	for l := range t.lock {
		if err := t.addGroup(l, g, fresh, from, to); err != nil {
			return n + g.count, err
		}
		n += g.count
	}
	return n, nil
}

// addGroup adds the keys of one lock.
func (t *Table) addGroup(l int, g *group, fresh []bool, now, until uint64) error {
	g.count, g.entries = 0, g.entries[:0]
	keys, order := g.of(l)
	if len(keys) == 0 {
		return nil
	}
	mark := t.mark(until, now)
	t.lock[l].Lock()
	defer t.lock[l].Unlock()
	for from := 0; from < len(keys); from += touched {
		ahead := keys[from:min(from+touched, len(keys))]
		t.touch(ahead, true)
		for n, key := range ahead {
			i := order[from+n]
			p := &t.parts[key.Hi>>56]
			hi, lo := t.shape.split(key)
			at, was := p.find(hi, lo)
			if fresh[i] = was <= now && (t.held[l] == nil || !t.reserved(key)); !fresh[i] {
				continue
			}
			if t.held[l] != nil {
				t.unhold(key) // removes a hold that has ended
			}
			if err := p.set(at, was, hi, lo, until, now); err != nil {
				return err
			}
			g.count++
			if t.onChange != nil {
				g.entries = append(g.entries, key, mark)
			}
		}
	}
	if g.count > 0 && t.onChange != nil {
		t.onChange(g.entries)
	}
	return nil
}

// Has sets fresh[i] to whether keys[i] is neither seen at the time now nor reserved. It does not
// change the table.
func (t *Table) Has(keys []bloom.Hash, now int64, fresh []bool) {
	_ = fresh[:len(keys)]
	g := t.group(keys)
	defer t.scratch.Put(g)
	ticks := t.ticks(now)
	for l := range t.lock {
		all, order := g.of(l)
		if len(all) == 0 {
			continue
		}
		t.lock[l].RLock()
		for from := 0; from < len(all); from += touched {
			ahead := all[from:min(from+touched, len(all))]
			t.touch(ahead, false)
			for n, key := range ahead {
				_, until := t.parts[key.Hi>>56].find(t.shape.split(key))
				fresh[order[from+n]] = until <= ticks && (t.held[l] == nil || !t.reserved(key))
			}
		}
		t.lock[l].RUnlock()
	}
}

// Put gives keys deadlines, whatever they had before; a deadline not after now removes its key. It
// ends all holds on the keys. Of equal keys the last counts. It is fastest for neighbours, as from Part.
func (t *Table) Put(now int64, entries ...Entry) error {
	for len(entries) > 0 {
		l := entries[0].Key.Hi >> 56 / share
		n := 1
		for n < len(entries) && entries[n].Key.Hi>>56/share == l {
			n++
		}
		if err := t.putGroup(&t.lock[l], t.ticks(now), entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// putGroup is Put for keys of one lock.
func (t *Table) putGroup(l *paddedLock, now uint64, entries []Entry) error {
	l.Lock()
	defer l.Unlock()
	for _, e := range entries {
		if t.held[e.Key.Hi>>56/share] != nil {
			t.unhold(e.Key)
		}
		p := &t.parts[e.Key.Hi>>56]
		hi, lo := t.shape.split(e.Key)
		deadline := t.ticks(e.Until)
		at, was := p.find(hi, lo)
		switch {
		case deadline > now:
			if err := p.set(at, was, hi, lo, deadline, now); err != nil {
				return err
			}
		case was != 0:
			p.remove(at, was, now)
		}
	}
	return nil
}

// Part appends the keys of part i, of Parts, that are seen at the time now, in order.
func (t *Table) Part(i int, now int64, dst []Entry) []Entry {
	l := &t.lock[i/share]
	l.RLock()
	defer l.RUnlock()
	p, ticks := &t.parts[i], t.ticks(now)
	for at := range p.slots {
		hi, lo := p.key(at)
		if hi|lo == 0 {
			continue
		}
		if d := p.deadline(at); d > ticks {
			dst = append(dst, Entry{bloom.Hash{Hi: uint64(i)<<56 | hi>>8, Lo: lo}, t.origin + int64(d)})
		}
	}
	return dst
}
