// Package leasetest has callers reserve, commit, release and add the same items, whatever happens to
// those that they ask, and holds what they are told against what can be: no item is held by two at
// once, what is committed is given out no more, and nothing is stuck.
//
// It knows the time by its own clock only, and counts a lease from before the call that gave it: so
// it finds fault with what is certainly wrong, however long a call takes.
package leasetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var (
	// ErrNothing is of a call that has changed nothing.
	ErrNothing = errors.New("nothing was done")
	// ErrDoubt is of one of which nobody knows.
	ErrDoubt = errors.New("the outcome is unknown")
)

// Caller asks for numbered items. Errors are or wrap those of this package; any other is a fault.
type Caller interface {
	// Reserve tells which items were given, and under which name.
	Reserve(items []int, lease time.Duration) (given []bool, name string, err error)
	// Settle commits or releases, and tells what is lost.
	Settle(commit bool, name string, items []int) (lost []bool, err error)
	// Add tells which items were new.
	Add(items []int) (fresh []bool, err error)
}

// Ledger has what callers were told.
type Ledger struct {
	mu      sync.Mutex
	items   []item
	answers int
	faults  []string
	// committed and ended count what was met.
	committed, ended int
}

type item struct {
	hold   *hold
	seen   time.Time // when a caller was told that he has committed or added it
	unsure bool      // a call that would have it seen had no answer
}

// hold is what one caller has of an item.
type hold struct {
	told, until time.Time // from when until when it is certainly his
	settling    bool
}

// New makes a ledger of so many items.
func New(items int) *Ledger { return &Ledger{items: make([]item, items)} }

// Answers is how many calls had an answer.
func (l *Ledger) Answers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// Faults are told once there are some.
func (l *Ledger) Faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}

func (l *Ledger) fault(format string, args ...any) {
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// known counts a call, and tells whether it was answered.
func (l *Ledger) known(what string, err error) bool {
	switch {
	case err == nil:
		l.answers++
		return true
	case !errors.Is(err, ErrNothing) && !errors.Is(err, ErrDoubt):
		l.fault("%s: %v", what, err)
	}
	return false
}

// Run has one caller ask until done is closed; at any time ask is who answers him.
func (l *Ledger) Run(ask func() Caller, done <-chan struct{}) {
	for len(l.Faults()) == 0 {
		select {
		case <-done:
			return
		default:
		}
		n := 1 + rand.IntN(100)
		items := make([]int, n)
		for i, from := 0, rand.IntN(len(l.items)-n); i < n; i++ {
			items[i] = from + i
		}
		if rand.IntN(8) == 0 {
			l.add(ask(), items[:1+n/10])
		} else {
			l.work(ask, items)
		}
	}
}

// given checks items that a call has given away that began at start.
func (l *Ledger) given(what string, which []int, yes []bool, start time.Time, each func(int, *item)) {
	now := time.Now()
	for i, n := range which {
		if !yes[i] {
			continue
		}
		it := &l.items[n]
		if !it.seen.IsZero() && it.seen.Before(start) {
			l.fault("%s: item %d was seen, and is new", what, n)
		}
		if h := it.hold; h != nil && !h.settling && h.told.Before(start) && h.until.After(now) {
			l.fault("%s: item %d is another's for %v more", what, n, h.until.Sub(now))
		}
		if h := it.hold; h != nil && !h.settling && h.until.Before(now) {
			l.ended++
		}
		each(n, it)
	}
}

func (l *Ledger) add(c Caller, items []int) {
	start := time.Now()
	fresh, err := c.Add(items)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known("add", err) {
		l.given("add", items, fresh, start, func(_ int, it *item) { it.hold, it.seen = nil, time.Now() })
	} else if errors.Is(err, ErrDoubt) {
		for _, n := range items {
			l.items[n].unsure = true
		}
	}
}

// work reserves items, and mostly settles them.
func (l *Ledger) work(ask func() Caller, items []int) {
	lease := time.Duration(50+rand.IntN(3000)) * time.Millisecond
	start := time.Now()
	given, name, err := ask().Reserve(items, lease)
	l.mu.Lock()
	var mine []int
	holds := map[int]*hold{}
	if l.known("reserve", err) {
		l.given("reserve", items, given, start, func(n int, it *item) {
			mine = append(mine, n)
			holds[n] = &hold{told: time.Now(), until: start.Add(lease)}
			if holds[n].until.After(holds[n].told) { // else another may have it by now
				it.hold = holds[n]
			}
		})
	}
	l.mu.Unlock()
	if mine == nil {
		return
	}
	switch rand.IntN(5) {
	case 0: // he dies
		return
	case 1:
		l.settle(ask, false, name, mine, holds)
	case 2:
		l.settle(ask, true, name, mine, holds)
	default: // in two parts
		at := rand.IntN(len(mine) + 1)
		l.settle(ask, true, name, mine[:at], holds)
		l.settle(ask, false, name, mine[at:], holds)
	}
}

// settle commits or releases; what had no answer is asked again, once.
func (l *Ledger) settle(ask func() Caller, commit bool, name string, items []int, holds map[int]*hold) {
	if len(items) == 0 {
		return
	}
	start := time.Now()
	l.mu.Lock()
	for _, n := range items {
		holds[n].settling = true
	}
	l.mu.Unlock()
	lost, err := ask().Settle(commit, name, items)
	if err != nil {
		lost, err = ask().Settle(commit, name, items)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.known("settle", err) {
		for _, n := range items {
			l.items[n].unsure = l.items[n].unsure || commit
		}
		return
	}
	for i, n := range items {
		it := &l.items[n]
		switch h := it.hold; {
		case lost[i] && now.Before(holds[n].until):
			l.fault("item %d is lost %v before the end of its lease", n, holds[n].until.Sub(now))
		case lost[i]:
		case h != holds[n] && h != nil && !h.settling && h.told.Before(start) && h.until.After(now):
			l.fault("item %d is settled by one who has lost it: commit %v", n, commit)
		case commit && !it.seen.IsZero():
			l.fault("item %d is committed, and was seen before", n)
		case commit:
			it.seen = now
			l.committed++
		}
	}
}

// Check wants all that was said to be seen to be so, and everything else to be given out by itself,
// as all leases end.
func (l *Ledger) Check(t testing.TB, c Caller) {
	t.Helper()
	left := map[int]bool{}
	for n := range l.items {
		left[n] = true
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		for from := 0; from < len(l.items); from += 500 {
			var ask []int
			for n := from; n < min(from+500, len(l.items)); n++ {
				if left[n] {
					ask = append(ask, n)
				}
			}
			if ask == nil {
				continue
			}
			given, _, err := c.Reserve(ask, 24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range ask {
				if given[i] {
					delete(left, n)
				}
				if given[i] && !l.items[n].seen.IsZero() {
					l.fault("at the end item %d, which is seen, is given out", n)
				}
			}
		}
		stuck := 0
		for n := range left {
			if l.items[n].seen.IsZero() && !l.items[n].unsure {
				stuck++
			}
		}
		if stuck == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d items are stuck", stuck)
			break
		}
	}
	for _, fault := range l.Faults() {
		t.Error(fault)
	}
	if l.committed == 0 || l.ended == 0 {
		t.Errorf("%d items were committed, and %d taken over after the end of a lease", l.committed, l.ended)
	}
	t.Logf("%d answers, %d items committed, %d leases that had ended", l.answers, l.committed, l.ended)
}
