package leasetest

import (
	"math/rand/v2"
	"time"
)

// taken is a reservation that its caller has not settled.
type taken struct {
	name  string
	items []int
	holds map[int]*hold
}

// Run has one caller make calls until done is closed; ask returns the Caller to use at that
// moment.
func (l *Ledger) Run(ask func() Caller, done <-chan struct{}) {
	var late []taken // reservations that are settled when their leases have ended, if at all
	for len(l.Faults()) == 0 {
		select {
		case <-done:
			return
		default:
		}
		n := 1 + rand.IntN(100)
		switch rand.IntN(16) {
		case 0, 1:
			l.add(ask(), l.pick(1+n/20))
		case 2:
			late = l.settleLate(ask, late)
		default:
			if t, kept := l.work(ask, l.pick(n)); kept {
				late = append(late, t)
			}
		}
	}
}

// pick returns n consecutive items.
func (l *Ledger) pick(n int) (items []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := 0
	for _, it := range l.items[l.from:] {
		if !it.seen.IsZero() || it.unsure {
			seen++
		}
	}
	if seen > l.window/2 {
		l.items = append(l.items, make([]item, l.window/4)...)
		l.from += l.window / 4
	}
	for i, from := 0, l.from+rand.IntN(l.window-n); i < n; i++ {
		items = append(items, from+i)
	}
	return items
}

// work reserves items, and mostly settles them; kept reports that it did not.
func (l *Ledger) work(ask func() Caller, items []int) (t taken, kept bool) {
	lease := time.Duration(50+rand.IntN(3000)) * time.Millisecond
	name, mine, holds := l.reserve(ask(), items, lease)
	if mine == nil {
		return t, false
	}
	at := rand.IntN(len(mine) + 1)
	switch rand.IntN(5) {
	case 0: // the caller dies, or is late
		return taken{name, mine, holds}, true
	case 1, 2:
		l.settle(ask, false, name, mine, holds)
	case 3:
		l.settle(ask, true, name, mine, holds)
	default: // in two parts
		l.settle(ask, true, name, mine[:at], holds)
		l.settle(ask, false, name, mine[at:], holds)
	}
	return t, false
}

// settleLate settles a reservation whose leases have ended; others may have taken some of its
// items.
func (l *Ledger) settleLate(ask func() Caller, late []taken) []taken {
	if len(late) == 0 {
		return nil
	}
	t := late[0]
	if now, _ := l.clock.now(); now.Before(t.holds[t.items[0]].until) {
		return late
	}
	l.settle(ask, rand.IntN(2) == 0, t.name, t.items[:1+len(t.items)/4], t.holds)
	return late[1:]
}
