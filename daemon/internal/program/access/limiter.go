package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// limiterSlots bounds the memory of a limiter. Addresses that hash to the same slot share it: one
// of them may then have to wait because of the other.
const limiterSlots = 1024

// limiter allows each address a burst, and then a steady rate (a leaky bucket for each). It is
// safe for concurrent use.
type limiter struct {
	burst int
	every time.Duration
	seed  maphash.Seed

	mu    sync.Mutex
	slots [limiterSlots]time.Time // when the bucket is empty again
}

func newLimiter(burst int, every time.Duration) *limiter {
	return &limiter{burst: burst, every: every, seed: maphash.MakeSeed()}
}

// allow counts one more event for an address, unless that is too many; wait is then how long the
// event would have to be delayed.
func (l *limiter) allow(addr netip.Addr, now time.Time) (ok bool, wait time.Duration) {
	slot := &l.slots[l.slotOf(addr)]
	l.mu.Lock()
	defer l.mu.Unlock()
	empty := *slot
	if empty.Before(now) {
		empty = now
	}
	empty = empty.Add(l.every)
	if wait = empty.Sub(now) - time.Duration(l.burst)*l.every; wait > 0 {
		return false, wait
	}
	*slot = empty
	return true, 0
}

func (l *limiter) slotOf(addr netip.Addr) uint64 {
	return maphash.Comparable(l.seed, addr) % limiterSlots
}
