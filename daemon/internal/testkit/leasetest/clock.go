package leasetest

import (
	"sync"
	"time"
)

// Clock is the clock of a store, by which leases end.
type Clock struct {
	read func() (time.Time, error)

	mu        sync.Mutex
	known     bool
	low, high time.Duration // how far the clock is ahead of this process's, at least and at most
}

// NewClock returns a Clock that reads the store's clock by read, which may fail while the store
// is away.
func NewClock(read func() (time.Time, error)) *Clock { return &Clock{read: read} }

// now returns a time no later than the store's clock when it returns, and no earlier than that
// clock was when it was called. While the store is away, it uses what it knows from before.
func (c *Clock) now() (early, late time.Time) {
	before := time.Now()
	shown, err := c.read()
	after := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if !c.known {
			return before, after
		}
		return before.Add(c.low), after.Add(c.high)
	}
	low, high := shown.Sub(after), shown.Sub(before)
	if c.known && max(low, c.low) <= min(high, c.high) {
		low, high = max(low, c.low), min(high, c.high)
	}
	c.low, c.high, c.known = low, high, true
	return shown, shown
}
