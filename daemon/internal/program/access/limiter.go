package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// limiterSlots bounds the memory of a limiter. Addresses that fall into one slot share it: one
// of them may then be told to wait for what the other did.
const limiterSlots = 1024

// limiter lets each address do something so many times in a row, and then once in a while (a
// leaky bucket for each). It is safe for concurrent use.
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

// take counts one more for an address, unless that is too much; wait is how long it then
// would have to be put off.
func (l *limiter) take(addr netip.Addr, now time.Time) (ok bool, wait time.Duration) {
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

// addressOf is what callers are told apart by: their address, of IPv6 the network of 64 bits,
// for one caller has all of it. Those over Unix sockets are one.
func addressOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // an IPv6 address has 128 bits
		return network.Addr()
	}
	return addr
}
