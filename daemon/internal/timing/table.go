// Package timing keeps keys until they expire: a table in memory, for filters whose items
// are seen for a while only. It takes about 26 bytes a key, and gives memory back when keys
// have expired. The table is package table's; here is the time that passes for it.
//
// The package opens no file and knows no items; durability is its callers' work.
package timing

import (
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/table"
)

const (
	// Groups is into how many calls of OnChange's function one Add or Forget may fall apart.
	Groups = table.Groups
	// Parts is the number of parts for Part.
	Parts = table.Parts
)

// Table holds keys and their deadlines. It is safe for concurrent use.
//
// It has a time of its own: milliseconds that begin with those of the machine's clock and
// then go on by Clock.Elapsed. A key that was added at t, to expire after e, is seen
// while the time is less than t+e.
type Table struct {
	keys  *table.Table
	clock Clock
	first int64         // the time when the table was made
	zero  time.Duration // Clock.Elapsed then
	ahead atomic.Int64  // milliseconds that Advance has added
}

// Entry is a key of a Table and when it expires, in the table's time.
type Entry = table.Entry

// Stats is what a table has at present.
type Stats = table.Stats

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
	return &Table{keys: table.NewTimed(now), clock: clock, first: now, zero: elapsed}
}

// Close gives the memory back. The table must not be used any more.
func (t *Table) Close() error { return t.keys.Close() }

// OnChange is that of package table, with the table's times.
func (t *Table) OnChange(f func(entries []bloom.Hash)) { t.keys.OnChange(f) }

func (t *Table) at(elapsed time.Duration) int64 {
	return t.first + max(0, (elapsed-t.zero).Milliseconds()+t.ahead.Load())
}

// Now is the table's time.
func (t *Table) Now() int64 { return t.at(t.clock.Elapsed()) }

// Read is what the table's and the machine's clock show now.
func (t *Table) Read() Reading {
	elapsed, wall := t.clock.both()
	return Reading{Table: t.at(elapsed), Wall: wall.UnixMilli()}
}

// Advance makes the table's time at least now. It is for one who finds, as he reads the
// table from disk, that time was further already. It must not be called beside Add.
func (t *Table) Advance(now int64) {
	if behind := now - t.Now(); behind > 0 {
		t.ahead.Add(behind)
	}
}

// Add adds the keys that are not seen, to be seen for expire from now on, in whole
// milliseconds: Add of package table.
func (t *Table) Add(keys []bloom.Hash, expire time.Duration, fresh []bool) (n int, err error) {
	now := t.Now()
	return t.keys.Add(keys, now, now+expire.Milliseconds(), fresh)
}

// AddUntil is Add for keys that are to be seen until a moment of the table's time.
func (t *Table) AddUntil(keys []bloom.Hash, until int64, fresh []bool) (n int, err error) {
	return t.keys.Add(keys, t.Now(), until, fresh)
}

// Has sets fresh[i] to whether keys[i] is not seen now. It changes nothing.
func (t *Table) Has(keys []bloom.Hash, fresh []bool) { t.keys.Has(keys, t.Now(), fresh) }

// Forget makes keys new again, and returns how many of them were seen: Remove of package
// table.
func (t *Table) Forget(keys []bloom.Hash) int { return t.keys.Remove(keys, t.Now()) }

// Reserve makes room for n keys more, which come in their order.
func (t *Table) Reserve(n int) error { return t.keys.Reserve(n, t.Now()) }

// Put gives keys deadlines, whatever they had; one that is past makes a key new. Of equal
// keys the last counts. It is quickest for keys that are neighbours, as from Part.
func (t *Table) Put(entries ...Entry) error { return t.keys.Put(t.Now(), entries...) }

// Part appends the keys of part i, of Parts, that have not expired, in order.
func (t *Table) Part(i int, dst []Entry) []Entry { return t.keys.Part(i, t.Now(), dst) }

// Memory is Stats().Bytes, at the cost of reading a number.
func (t *Table) Memory() uint64 { return t.keys.Memory() }

// Stats counts; what has expired counts until Sweep has seen it.
func (t *Table) Stats() Stats { return t.keys.Stats() }

// Sweep lets go of a part of what has expired: Sweep of package table.
func (t *Table) Sweep() error { return t.keys.Sweep(t.Now()) }
