// Package budget bounds a resource that many requests share, such as memory. It waits for
// nothing: a caller that gets none is told so.
package budget

import "sync/atomic"

// Budget is how much of the resource there is, and what of it is used. It is safe for
// concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// New makes a budget of which nothing is used.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n, unless that would pass the limit.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n of what was taken.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used is what was taken and not returned.
func (b *Budget) Used() int64 { return b.used.Load() }
