// Package leasetest has callers reserve, commit, release and add the same items, whatever happens
// to the stores that they call, and checks the answers against what is possible: no item is held
// by two callers at once, a committed item is never given out again, and nothing is held for
// longer than its lease.
//
// It knows the time by the store's own clock. For what a caller holds, a lease counts from before
// the call that gave it; for what must be free, from after that call. So it reports only what is
// certainly wrong, however long a call takes.
package leasetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

var (
	// ErrNothing: the call has changed nothing.
	ErrNothing = errors.New("nothing was done")
	// ErrUnknown: nobody knows whether the call has changed anything.
	ErrUnknown = errors.New("the outcome is unknown")
)

// Caller makes calls for numbered items. Errors are or wrap those of this package; any other is a
// fault.
type Caller interface {
	// Reserve returns which items were given, and under which name.
	Reserve(items []int, lease time.Duration) (given []bool, name string, err error)
	// Settle commits or releases, and returns which items were lost.
	Settle(commit bool, name string, items []int) (lost []bool, err error)
	// Add returns which items were new.
	Add(items []int) (fresh []bool, err error)
}

// Granularity is how long after the end of its lease, by the store's clock, an item may still be held.
const Granularity = 20 * time.Millisecond

// onTheWay is how long after an unanswered call it may still be carried out.
const onTheWay = time.Second

// Ledger records what callers were told. It is safe for concurrent use.
type Ledger struct {
	clock  *Clock
	window int

	mu      sync.Mutex
	items   []item
	from    int // the callers ask for items from here on
	answers int
	faults  []string
	// committed, ended and freed count what happened: items that were committed, items that were
	// taken over after the end of a lease, and items that were given and free without a doubt.
	committed, ended, freed int
}

type item struct {
	hold         *hold
	seen         time.Time // when a caller was told that the item is committed or added
	unsure       bool      // a call that would make it seen had no answer
	free         time.Time // when every lease that may have been given for it has ended
	unknownUntil time.Time // the part of free that is due to calls without an answer

	begun, open int // calls for it, and those that have not ended
}

// hold is what one caller has of an item.
type hold struct {
	told, until time.Time // from when until when the caller certainly has it
	settling    bool
}

// New makes a ledger for a store with a clock. Callers ask for items out of window at a time;
// once most of these are seen, others take the place of some.
func New(window int, clock *Clock) *Ledger {
	return &Ledger{clock: clock, window: window, items: make([]item, window)}
}

// Answers returns how many calls had an answer.
func (l *Ledger) Answers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// Faults returns the faults that were found so far.
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

// call is a call for items that has not ended.
type call struct {
	what  string
	items []int
	start time.Time
	was   []itemThen
}

// itemThen is the state of an item when a call for it began.
type itemThen struct {
	begun       int
	alone, free bool // no other call was open; it could certainly be had
}

// alone reports whether nobody else has asked for an item while the call was open. l.mu is held.
func (l *Ledger) alone(c *call, i int) bool {
	return c.was[i].alone && c.was[i].begun == l.items[c.items[i]].begun
}

func (l *Ledger) begin(what string, items []int) *call {
	c := &call{what: what, items: items, was: make([]itemThen, len(items))}
	c.start, _ = l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range items {
		it := &l.items[n]
		it.begun++
		c.was[i] = itemThen{begun: it.begun, alone: it.open == 0, free: it.seen.IsZero() && !it.unsure && c.start.After(it.free.Add(Granularity))}
		it.open++
	}
	return c
}

// end records how a call ended, and reports whether it was answered. l.mu is held.
func (l *Ledger) end(c *call, err error) bool {
	for _, n := range c.items {
		l.items[n].open--
	}
	switch {
	case err == nil:
		l.answers++
		return true
	case !errors.Is(err, ErrNothing) && !errors.Is(err, ErrUnknown):
		l.fault("%s: %v", c.what, err)
	}
	return false
}

// given checks the items that a call has given out, and calls each with them. lease is how long
// they are held; 0: they are seen. l.mu is held.
func (l *Ledger) given(c *call, yes []bool, lease time.Duration, now time.Time, each func(int, *item)) {
	for i, n := range c.items {
		it := &l.items[n]
		sure := c.was[i].free && l.alone(c, i)
		if !yes[i] {
			if sure {
				l.fault("%s: item %d is not given, %v after it was free", c.what, n, c.start.Sub(it.free))
			}
			continue
		}
		if sure && !it.free.IsZero() {
			l.freed++
		}
		if !it.seen.IsZero() && it.seen.Before(c.start) {
			l.fault("%s: item %d was seen, and is new", c.what, n)
		}
		// Where the two calls ran at the same time, either may have been first: the lease of the other
		// one had not ended in either case, unless this one has ended already.
		if h := it.hold; h != nil && !h.settling && h.until.After(now) && (lease == 0 || c.start.Add(lease).After(now)) {
			l.fault("%s: item %d is another's for %v more", c.what, n, h.until.Sub(now))
		} else if h != nil && !h.settling && h.until.Before(now) {
			l.ended++
		}
		if lease > 0 {
			it.freeFrom(now.Add(lease))
		}
		each(n, it)
	}
}

func (it *item) freeFrom(t time.Time) {
	if t.After(it.free) {
		it.free = t
	}
}

// rest keeps a caller that was refused from asking all the time.
func rest(err error) {
	if err != nil {
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *Ledger) add(c Caller, items []int) {
	asked := l.begin("add", items)
	fresh, err := c.Add(items)
	defer rest(err)
	_, now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end(asked, err) {
		l.given(asked, fresh, 0, now, func(_ int, it *item) { it.hold, it.seen = nil, now })
	} else if errors.Is(err, ErrUnknown) {
		for _, n := range items {
			l.items[n].unsure = true
		}
	}
}

// reserve returns which items were given, and how long they are held at least.
func (l *Ledger) reserve(c Caller, items []int, lease time.Duration) (name string, mine []int, holds map[int]*hold) {
	asked := l.begin("reserve", items)
	yes, name, err := c.Reserve(items, lease)
	defer rest(err)
	_, now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.end(asked, err) {
		for _, n := range items {
			if !errors.Is(err, ErrNothing) {
				l.items[n].unknownUntil = now.Add(lease + onTheWay)
				l.items[n].freeFrom(l.items[n].unknownUntil)
			}
		}
		return "", nil, nil
	}
	holds = map[int]*hold{}
	l.given(asked, yes, lease, now, func(n int, it *item) {
		mine = append(mine, n)
		holds[n] = &hold{told: now, until: asked.start.Add(lease)}
		if holds[n].until.After(now) { // else another may have it by now
			it.hold = holds[n]
		}
	})
	return name, mine, holds
}

// settle commits or releases; a call without an answer is repeated until it has one.
func (l *Ledger) settle(ask func() Caller, commit bool, name string, items []int, holds map[int]*hold) {
	if len(items) == 0 {
		return
	}
	l.mu.Lock()
	for _, n := range items {
		holds[n].settling = true
	}
	l.mu.Unlock()
	asked := l.begin("settle", items)
	lost, err := ask().Settle(commit, name, items)
	for end := time.Now().Add(4 * time.Minute); (errors.Is(err, ErrNothing) || errors.Is(err, ErrUnknown)) && time.Now().Before(end); {
		rest(err)
		lost, err = ask().Settle(commit, name, items)
	}
	_, now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.end(asked, err) {
		l.fault("settle: no answer: %v", err)
		return
	}
	for i, n := range items {
		it := &l.items[n]
		switch h := it.hold; {
		case lost[i] && now.Before(holds[n].until):
			l.fault("item %d is lost %v before the end of its lease", n, holds[n].until.Sub(now))
		case lost[i]:
		case h != holds[n] && h != nil && !h.settling && h.told.Before(asked.start) && h.until.After(now):
			l.fault("item %d is settled by one who has lost it: commit %v", n, commit)
		case commit && !it.seen.IsZero():
			l.fault("item %d is committed, and was seen before", n)
		case commit:
			it.seen = now
			l.committed++
		case l.alone(asked, i) && asked.start.After(it.unknownUntil):
			it.free = now
		}
	}
}

// Check verifies that all items that were said to be seen are seen, and that every other item is
// given out as soon as all leases have ended.
func (l *Ledger) Check(t testing.TB, c Caller) {
	t.Helper()
	left := map[int]bool{}
	for n := range l.items {
		left[n] = true
	}
	for open := true; open && len(l.Faults()) == 0; time.Sleep(50 * time.Millisecond) {
		open = false
		for from := 0; from < len(l.items); from += 500 {
			var ask []int
			for n := from; n < min(from+500, len(l.items)); n++ {
				if left[n] {
					ask = append(ask, n)
				}
			}
			if len(ask) == 0 {
				continue
			}
			_, mine, _ := l.reserve(c, ask, 24*time.Hour)
			for _, n := range mine {
				delete(left, n)
			}
			for _, n := range ask {
				open = open || left[n] && l.items[n].seen.IsZero() && !l.items[n].unsure
			}
		}
	}
	for _, fault := range l.Faults() {
		t.Error(fault)
	}
	if l.committed == 0 || l.ended == 0 || l.freed == 0 {
		t.Errorf("%d items were committed, %d taken over after the end of a lease, %d given that were free without a doubt", l.committed, l.ended, l.freed)
	}
	t.Logf("%d items, %d answers, %d committed, %d leases that had ended, %d given that were free without a doubt", len(l.items), l.answers, l.committed, l.ended, l.freed)
}
