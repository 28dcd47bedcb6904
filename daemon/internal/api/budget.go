package api

import "sync/atomic"

// budget bounds a resource that many requests share. It is safe for concurrent use.
type budget struct {
	limit int64
	room  func() bool // says whether there is any, whatever the limit; nil: there is
	used  atomic.Int64
}

// take reserves n, unless that would pass the limit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit || b.room != nil && !b.room() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
