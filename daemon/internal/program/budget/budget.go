// Package budget bounds a resource that many requests share, such as memory. It never waits:
// if nothing is available, it says so.
package budget

import "sync/atomic"

// Budget holds the size of the resource, and how much of it is used. It is safe for
// concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// New makes an unused budget.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n, unless that would exceed the limit.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n of what was taken.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used returns what was taken and not yet returned.
func (b *Budget) Used() int64 { return b.used.Load() }
