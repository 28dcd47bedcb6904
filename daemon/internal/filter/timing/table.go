// Package timing keeps keys until they expire: a table in memory, for filters whose items are
// seen only for a while. It takes about 26 bytes per key, and frees memory when keys have
// expired. The table is that of package table; this package gives it the time.
//
// The package opens no file and does not know items; durability is the work of its callers.
package timing

import (
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

const (
	// Groups is the maximum number of calls of OnChange's function into which one Add or Forget
	// may be split.
	Groups = table.Groups
	// Parts is the number of parts for Part.
	Parts = table.Parts
)

// Table holds keys and their deadlines. It is safe for concurrent use.
//
// It has a time of its own. A key that was added at t, to expire after e, is seen
// while the time is less than t+e.
type Table struct {
	*Timeline
	keys *table.Table
}

// Entry is a key of a Table and when it expires, in the table's time.
type Entry = table.Entry

// Stats is what a table has at present.
type Stats = table.Stats

// New makes an empty table.
func New(clock Clock) *Table { return start(Begin(clock)) }

// Resume makes an empty table whose time goes on from r, as GoOn describes.
func Resume(clock Clock, r Reading) *Table { return start(GoOn(clock, r)) }

func start(time *Timeline) *Table {
	return &Table{Timeline: time, keys: table.NewTimed(time.first)}
}

// Close frees the memory. The table must not be used any more.
func (t *Table) Close() error { return t.keys.Close() }

// OnChange is OnChange of package table, with the table's times.
func (t *Table) OnChange(f func(entries []bloom.Hash)) { t.keys.OnChange(f) }

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

// Load is Load of package table.
func (t *Table) Load() *table.Loader { return t.keys.Load(t.Now()) }

// Put gives keys deadlines, whatever they had; a deadline in the past makes a key new. Of equal
// keys the last counts. Put is fastest for keys that are neighbours, as from Part of package table.
func (t *Table) Put(entries ...Entry) error { return t.keys.Put(t.Now(), entries...) }

// Memory returns Stats().Bytes, at the cost of reading a number.
func (t *Table) Memory() uint64 { return t.keys.Memory() }

// MemoryFor is MemoryFor of package table.
func (t *Table) MemoryFor(n, reserved int) uint64 { return t.keys.MemoryFor(n, reserved) }

// Stats counts the keys; an expired one counts until Sweep has seen it.
func (t *Table) Stats() Stats { return t.keys.Stats() }

// Sweep removes a part of the expired keys: Sweep of package table.
func (t *Table) Sweep() error {
	t.keys.SweepLeases()
	return t.keys.Sweep(t.Now())
}

// Leases prepares the table for reservations: each stays known for at least kept after it has
// ended.
func (t *Table) Leases(kept time.Duration) { t.keys.Leases(t.Now, kept) }

// Keys returns the table of keys, for its parts and reservations; its times are the Timeline's.
func (t *Table) Keys() *table.Table { return t.keys }

// Apply replays what OnChange's function got, in the same order: Apply of package table.
func (t *Table) Apply(entries []bloom.Hash) error { return t.keys.Apply(entries, t.Now, t.Advance) }
