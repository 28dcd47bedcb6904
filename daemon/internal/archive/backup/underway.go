package backup

import (
	"cmp"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
)

// Underway is how far a copy has come, whoever has begun it.
type Underway struct {
	Filter, Doing string // writeback or restore
	Done, Of      int    // stripes; Of 0: it has just begun
}

// copies are those that run.
type copies struct {
	mu  sync.Mutex
	all map[*Underway]bool
}

// begin notes a copy. The returned Progress takes note of its steps, and passes them on.
func (c *copies) begin(doing, filter string, p archive.Progress) (note archive.Progress, end func()) {
	u := &Underway{Filter: filter, Doing: doing}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*Underway]bool{}
	}
	c.all[u] = true
	note = func(stripe, of int) {
		c.mu.Lock()
		u.Done, u.Of = stripe, of
		c.mu.Unlock()
		if p != nil {
			p(stripe, of)
		}
	}
	return note, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, u)
	}
}

// Underway lists the copies that run, by filter.
func (l *Link) Underway() []Underway {
	l.copies.mu.Lock()
	defer l.copies.mu.Unlock()
	var all []Underway
	for u := range l.copies.all {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Underway) int { return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Doing, b.Doing)) })
	return all
}
