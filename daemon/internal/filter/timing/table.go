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

// Table holds keys and their deadlines. It is safe for concurrent use.
//
// It has a time of its own. A key that was added at t, to expire after e, is seen
// while the time is less than t+e. What it has of package table takes and returns times of its
// Timeline, which are those that At and Span return.
type Table struct {
	*Timeline
	*table.Table
	still bool // see Still
}

// New makes an empty table.
func New(clock Clock) *Table { return Resume(clock, Reading{}) }

// Resume makes an empty table whose time goes on from r, as GoOn describes.
func Resume(clock Clock, r Reading) *Table {
	time := GoOn(clock, r)
	return &Table{Timeline: time, Table: table.NewTimed(time.first)}
}

// Still makes a table of keys without deadlines. Only its reservations have a time, which goes on
// from r.
func Still(clock Clock, r Reading, keys *table.Table) *Table {
	return &Table{Timeline: GoOn(clock, r), Table: keys, still: true}
}

// At returns the time for functions of package table: Now, if keys have deadlines.
func (t *Table) At() int64 {
	if t.still {
		return table.Still
	}
	return t.Now()
}

// Span returns At, and until when keys are seen that expire after a time from now on, in whole
// milliseconds, if they do.
func (t *Table) Span(expire time.Duration) (now, until int64) {
	if t.still {
		return table.Still, table.Kept
	}
	now = t.Now()
	return now, now + expire.Milliseconds()
}

// Add adds the keys that are not seen, to be seen for expire from now on: Add of package table.
func (t *Table) Add(keys []bloom.Hash, expire time.Duration, fresh []bool) (n int, err error) {
	now, until := t.Span(expire)
	return t.Table.Add(keys, now, until, fresh)
}

// AddUntil is Add for keys that are to be seen until a moment of the table's time.
func (t *Table) AddUntil(keys []bloom.Hash, until int64, fresh []bool) (n int, err error) {
	return t.Table.Add(keys, t.Now(), until, fresh)
}

// Has sets fresh[i] to whether keys[i] is not seen now. It changes nothing.
func (t *Table) Has(keys []bloom.Hash, fresh []bool) { t.Table.Has(keys, t.At(), fresh) }

// Forget makes keys new again, and returns how many of them were seen: Remove of package
// table.
func (t *Table) Forget(keys []bloom.Hash) int { return t.Remove(keys, t.At()) }

// Sweep removes a part of the expired keys: Sweep of package table.
func (t *Table) Sweep() error {
	t.SweepLeases()
	if t.still {
		return nil
	}
	return t.Table.Sweep(t.Now())
}

// Leases prepares the table for reservations: each stays known for at least kept after it has
// ended.
func (t *Table) Leases(kept time.Duration) { t.Table.Leases(t.Now, kept) }

// Apply replays what OnChange's function got, in the same order: Apply of package table.
func (t *Table) Apply(entries []bloom.Hash) error { return t.Table.Apply(entries, t.At, t.Advance) }
