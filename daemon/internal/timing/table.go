// Package timing keeps keys until they expire: a table in memory, for filters whose items
// are seen for a while only. It is exact to the 128 bits of a key's hash, takes about 26
// bytes a key, and gives memory back when keys have expired.
//
// The package opens no file and knows no items; durability is its callers' work.
package timing

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

const (
	parts = 256 // by the first byte of a key
	locks = 16  // each for so many neighbouring parts
	share = parts / locks

	// touched is how many keys are looked up ahead: their slots, on the way from memory,
	// fit the first-level cache.
	touched = 128
)

// Groups is into how many calls of OnAdd's function one Add may fall apart.
const Groups = locks

// Table holds keys and their deadlines. It is safe for concurrent use.
//
// It has a time of its own: milliseconds that begin with those of the machine's clock and
// then go on by Clock.Elapsed. A key that was added at t, to expire after e, is seen
// while the time is less than t+e.
type Table struct {
	clock  Clock
	origin int64         // a millisecond before the table was made: what ticks count from
	zero   time.Duration // Clock.Elapsed when the table was made
	ahead  atomic.Int64  // milliseconds that Advance has added

	onAdd   func(entries []bloom.Hash)
	scratch sync.Pool // of *group

	lock  [locks]paddedLock
	parts [parts]part // guarded by lock[i/share]
	bytes atomic.Int64
	swept int // the part that Sweep begins with; guarded by sweeping

	sweeping sync.Mutex
}

// paddedLock has a cache line of its own.
type paddedLock struct {
	sync.RWMutex
	_ [40]byte
}

// Entry is a key of a Table and when it expires, in the table's time.
type Entry struct {
	Key   bloom.Hash
	Until int64
}

// New makes an empty table.
func New(clock Clock) *Table {
	elapsed, wall := clock.both()
	return start(clock, elapsed, wall.UnixMilli())
}

// Resume makes an empty table whose time goes on from r, which another has written down: by
// as much as has passed by the machine's clock. Where that was set back, no time has
// passed: time never runs backwards, so deadlines keep their order.
func Resume(clock Clock, r Reading) *Table {
	elapsed, wall := clock.both()
	return start(clock, elapsed, r.after(wall))
}

func start(clock Clock, elapsed time.Duration, now int64) *Table {
	t := &Table{clock: clock, origin: now - 1, zero: elapsed}
	t.scratch.New = func() any { return new(group) }
	for i := range t.parts {
		t.parts[i].soonest = maxDeadline
		t.parts[i].total = &t.bytes
	}
	return t
}

// Close gives the memory back. The table must not be used any more.
func (t *Table) Close() error {
	var errs []error
	for i := range t.parts {
		l := &t.lock[i/share]
		l.Lock()
		errs = append(errs, t.parts[i].drop())
		l.Unlock()
	}
	return errors.Join(errs...)
}

// OnAdd sets the function that Add calls under a lock, before anybody else can see the
// fresh keys as seen. It gets two elements for each: the key; and the deadline (Hi) and
// the time of the call (Lo). It is set once, before the first Add.
func (t *Table) OnAdd(f func(entries []bloom.Hash)) { t.onAdd = f }

// tick is the table's time since origin, at least 1, and what deadlines are counted in.
func (t *Table) tick() uint64 { return t.tickAt(t.clock.Elapsed()) }

func (t *Table) tickAt(elapsed time.Duration) uint64 {
	return uint64(max(1, 1+(elapsed-t.zero).Milliseconds()+t.ahead.Load()))
}

// Now is the table's time.
func (t *Table) Now() int64 { return t.origin + int64(t.tick()) }

// Read is what the table's and the machine's clock show now.
func (t *Table) Read() Reading {
	elapsed, wall := t.clock.both()
	return Reading{Table: t.origin + int64(t.tickAt(elapsed)), Wall: wall.UnixMilli()}
}

// Advance makes the table's time at least now. It is for one who finds, as he reads the
// table from disk, that time was further already. It must not be called beside Add.
func (t *Table) Advance(now int64) {
	if behind := now - t.Now(); behind > 0 {
		t.ahead.Add(behind)
	}
}

// deadline is a time in ticks: 1, which is past, for all past ones.
func (t *Table) deadline(until int64) uint64 {
	return uint64(min(max(until-t.origin, 1), maxDeadline))
}

// Add adds the keys that are not seen, to be seen for expire from now on, in whole
// milliseconds; fresh[i] tells whether keys[i] was one, and n how many there are. Those
// that are seen keep their deadline. Of equal keys, in one call or in several at the same
// time, the first is fresh and no other. len(fresh) must be len(keys). On an error, which
// is the system's refusal of memory, some of the keys have been added.
func (t *Table) Add(keys []bloom.Hash, expire time.Duration, fresh []bool) (n int, err error) {
	now := t.tick()
	return t.add(keys, now, min(now+uint64(expire.Milliseconds()), maxDeadline), fresh)
}

// AddUntil is Add for keys that are to be seen until a moment of the table's time.
func (t *Table) AddUntil(keys []bloom.Hash, until int64, fresh []bool) (n int, err error) {
	return t.add(keys, t.tick(), t.deadline(until), fresh)
}

func (t *Table) add(keys []bloom.Hash, now, until uint64, fresh []bool) (n int, err error) {
	_ = fresh[:len(keys)]
	g := t.group(keys)
	defer t.scratch.Put(g)
	for l := range t.lock {
		if err := t.addGroup(l, g, keys, fresh, now, until); err != nil {
			return n + g.count, err
		}
		n += g.count
	}
	return n, nil
}

// addGroup adds the keys of one lock.
func (t *Table) addGroup(l int, g *group, keys []bloom.Hash, fresh []bool, now, until uint64) error {
	g.count, g.entries = 0, g.entries[:0]
	order := g.of(l)
	if len(order) == 0 {
		return nil
	}
	t.lock[l].Lock()
	defer t.lock[l].Unlock()
	for len(order) > 0 {
		ahead := order[:min(touched, len(order))]
		order = order[len(ahead):]
		g.touch(t, keys, ahead)
		for _, i := range ahead {
			p := &t.parts[keys[i].Hi>>56]
			hi, lo := split(keys[i])
			at, was := p.find(hi, lo)
			if fresh[i] = was <= now; !fresh[i] {
				continue
			}
			if err := p.set(at, was, hi, lo, until, now); err != nil {
				return err
			}
			g.count++
			if t.onAdd != nil {
				g.entries = append(g.entries, keys[i], bloom.Hash{Hi: uint64(t.origin + int64(until)), Lo: uint64(t.origin + int64(now))})
			}
		}
	}
	if g.count > 0 && t.onAdd != nil {
		t.onAdd(g.entries)
	}
	return nil
}

// Has sets fresh[i] to whether keys[i] is not seen now. It changes nothing.
func (t *Table) Has(keys []bloom.Hash, fresh []bool) {
	_ = fresh[:len(keys)]
	g := t.group(keys)
	defer t.scratch.Put(g)
	now := t.tick()
	for l := range t.lock {
		order := g.of(l)
		if len(order) == 0 {
			continue
		}
		t.lock[l].RLock()
		for len(order) > 0 {
			ahead := order[:min(touched, len(order))]
			order = order[len(ahead):]
			g.touch(t, keys, ahead)
			for _, i := range ahead {
				hi, lo := split(keys[i])
				_, until := t.parts[keys[i].Hi>>56].find(hi, lo)
				fresh[i] = until <= now
			}
		}
		t.lock[l].RUnlock()
	}
}

// Reserve makes room for n keys more. Keys that come in their order, as from Part, need it:
// in a table that is made for those that have come so far, they would all crowd in the
// slots of the lowest.
func (t *Table) Reserve(n int) error {
	each := n/parts + n/parts/64 + 64 // their numbers in the parts differ a little
	for i := range t.parts {
		l := &t.lock[i/share]
		l.Lock()
		err := t.parts[i].remake(t.tick(), each, 0)
		l.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Put gives keys deadlines, whatever they had; one that is past makes a key new. Of equal
// keys the last counts. It is quickest for keys that are neighbours, as from Part.
func (t *Table) Put(entries ...Entry) error {
	for len(entries) > 0 {
		l := entries[0].Key.Hi >> 56 / share
		n := 1
		for n < len(entries) && entries[n].Key.Hi>>56/share == l {
			n++
		}
		if err := t.putGroup(&t.lock[l], entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// putGroup is Put for keys of one lock.
func (t *Table) putGroup(l *paddedLock, entries []Entry) error {
	l.Lock()
	defer l.Unlock()
	now := t.tick()
	for _, e := range entries {
		p := &t.parts[e.Key.Hi>>56]
		hi, lo := split(e.Key)
		deadline := t.deadline(e.Until)
		at, was := p.find(hi, lo)
		switch {
		case deadline > now:
			if err := p.set(at, was, hi, lo, deadline, now); err != nil {
				return err
			}
		case was != 0:
			p.put(at, hi, lo, 1) // past; Sweep takes it away
		}
	}
	return nil
}

// Parts is the number of parts for Part.
const Parts = parts

// Part appends the keys of part i, of Parts, that have not expired, in order.
func (t *Table) Part(i int, dst []Entry) []Entry {
	l := &t.lock[i/share]
	l.RLock()
	defer l.RUnlock()
	p, now := &t.parts[i], t.tick()
	for at := range p.table {
		if hi, lo, d := p.table[at].read(); d > now {
			dst = append(dst, Entry{bloom.Hash{Hi: uint64(i)<<56 | hi>>8, Lo: lo}, t.origin + int64(d)})
		}
	}
	return dst
}
