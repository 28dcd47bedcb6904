package table

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

const keptFor = 10 * time.Minute

// leasing is a table, with or without deadlines, that uses the time of a test.
type leasing struct {
	*Table
	time    atomic.Int64
	timed   bool
	journal []bloom.Hash
}

func newLeasing(t testing.TB, timed bool) *leasing {
	l := &leasing{timed: timed}
	l.time.Store(1_700_000_000_000)
	if l.Table = New(); timed {
		l.Table = NewTimed(l.time.Load())
	}
	closing(t, l.Table)
	l.Leases(l.time.Load, keptFor)
	l.OnChange(func(entries []bloom.Hash) { l.journal = append(l.journal, entries...) })
	return l
}

func bothKinds(t *testing.T, f func(*testing.T, bool)) {
	for _, timed := range []bool{false, true} {
		t.Run(fmt.Sprintf("deadlines=%v", timed), func(t *testing.T) { f(t, timed) })
	}
}

func (l *leasing) pass(d time.Duration) { l.time.Add(d.Milliseconds()) }

func (l *leasing) now() (now, until int64) {
	if l.timed {
		return l.time.Load(), l.time.Load() + time.Hour.Milliseconds()
	}
	return Still, Kept
}

func (l *leasing) take(id uint64, lease time.Duration, keys ...bloom.Hash) (fresh string, others int) {
	marks := make([]bool, len(keys))
	now, _ := l.now()
	n, others := l.Take(bloom.Hash{Hi: 1, Lo: id}, keys, now, lease.Milliseconds(), marks)
	text := signs(marks)
	for _, is := range marks {
		if is {
			n--
		}
	}
	if n != 0 {
		return fmt.Sprintf("%s, but another count by %d", text, n), others
	}
	return text, others
}

func (l *leasing) commit(id uint64, keys ...bloom.Hash) string {
	lost := make([]bool, len(keys))
	now, until := l.now()
	result, known, err := l.Commit(bloom.Hash{Hi: 1, Lo: id}, keys, now, until, lost)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(signs(lost), result.Done, result.Lost, known)
}

func (l *leasing) release(id uint64, keys ...bloom.Hash) string {
	lost := make([]bool, len(keys))
	result, known := l.Release(bloom.Hash{Hi: 1, Lo: id}, keys, lost)
	return fmt.Sprint(signs(lost), result.Done, result.Lost, known)
}

func (l *leasing) isNew(keys ...bloom.Hash) string {
	fresh := make([]bool, len(keys))
	now, _ := l.now()
	l.Has(keys, now, fresh)
	return signs(fresh)
}

func (l *leasing) add(keys ...bloom.Hash) string {
	fresh := make([]bool, len(keys))
	now, until := l.now()
	if _, err := l.Add(keys, now, until, fresh); err != nil {
		return err.Error()
	}
	return signs(fresh)
}

func signs(marks []bool) string {
	text := ""
	for _, is := range marks {
		text += map[bool]string{true: "x", false: "."}[is]
	}
	return text
}

func want(t *testing.T, what string, got any, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestAKeyIsGivenToOne(t *testing.T) {
	bothKinds(t, func(t *testing.T, timed bool) {
		l := newLeasing(t, timed)
		a, b, c, d := key(1), key(2), key(3), key(4)
		l.add(d)
		fresh, others := l.take(1, time.Minute, a, b, a, d)
		want(t, "first", fresh, "xx..")
		want(t, "others", others, 0)
		fresh, others = l.take(2, time.Minute, a, c, d)
		want(t, "second", fresh, ".x.")
		want(t, "others", others, 1)
		want(t, "add of reserved ones", l.add(a, c), "..")
		want(t, "reserved ones are new", l.isNew(a, b, c, d), "....")
		want(t, "commit of one that another has", l.commit(2, a, c), "x.1 1 true")
		want(t, "commit of an unknown reservation", l.commit(3, a), ".0 0 false")
		want(t, "again", l.commit(2, a, c), "x.1 1 true")
		want(t, "release", l.release(1, b, b), "..1 0 true")
		want(t, "release of what is committed", l.release(2, c), "x0 1 true")
		want(t, "new after a release", l.isNew(a, b, c), ".x.")
		want(t, "commit after a release", l.commit(1, b), "x0 1 true")
		want(t, "commit of all, without what was released", l.all(1, true), "1 0")
		want(t, "again", l.all(1, true), "1 0")
		want(t, "release of all, without what was committed", l.all(1, false), "1 0")
		want(t, "seen", l.isNew(a, b, c, d), ".x..")
		sound(t, l.Table)
	})
}

// all settles a whole reservation.
func (l *leasing) all(id uint64, commit bool) string {
	now, until := l.now()
	var got Settled
	var known bool
	var err error
	of := bloom.Hash{Hi: 1, Lo: id}
	if commit {
		keys := l.Reserved(of, Released)
		got, known, err = l.Commit(of, keys, now, until, make([]bool, len(keys)))
	} else {
		keys := l.Reserved(of, Committed)
		got, known = l.Release(of, keys, make([]bool, len(keys)))
	}
	if err != nil || !known {
		return fmt.Sprint(known, err)
	}
	return fmt.Sprint(got.Done, got.Lost)
}

func TestALeaseEnds(t *testing.T) {
	bothKinds(t, func(t *testing.T, timed bool) {
		l := newLeasing(t, timed)
		a, b, c, d, e := key(1), key(2), key(3), key(4), key(5)
		l.take(1, time.Minute, a, b, c, d, e)
		l.pass(time.Minute - time.Millisecond)
		want(t, "before the end", l.isNew(a, b, c, d, e), ".....")
		l.pass(time.Millisecond)
		want(t, "at the end", l.isNew(a, b, c, d, e), "xxxxx")
		fresh, others := l.take(2, time.Minute, a)
		want(t, "taken by another", fresh, "x")
		want(t, "others", others, 0)
		want(t, "added by another", l.add(b), "x")
		want(t, "commit of what nobody took", l.commit(1, c), ".1 0 true")
		want(t, "commit of all: c, d, e, and two are lost", l.all(1, true), "3 2")
		want(t, "the other's commit", l.commit(2, a), ".1 0 true")
		want(t, "all are seen", l.isNew(a, b, c, d, e), ".....")

		l.take(3, time.Minute, key(6), key(7))
		l.pass(time.Minute)
		want(t, "release of what has ended", l.release(3, key(6)), ".1 0 true")
		l.pass(keptFor - time.Millisecond)
		l.SweepLeases()
		want(t, "known until", l.all(3, false), "2 0")
		l.pass(keptFor)
		l.SweepLeases()
		want(t, "not known", l.all(3, false), "false <nil>")
		if n := l.Reservations(); n != 0 || l.leases.bytes.Load() != 0 {
			t.Errorf("%d reservations and %d bytes are left", n, l.leases.bytes.Load())
		}
		for i := range l.held {
			if l.held[i] != nil {
				t.Errorf("lock %d has holds", i)
			}
		}
	})
}

func TestForgettingEndsALease(t *testing.T) {
	bothKinds(t, func(t *testing.T, timed bool) {
		l := newLeasing(t, timed)
		a, b := key(1), key(2)
		l.take(1, time.Minute, a, b)
		now, _ := l.now()
		want(t, "counted", l.Remove([]bloom.Hash{a}, now), 0)
		want(t, "new", l.isNew(a, b), "x.")
		want(t, "commit", l.commit(1, a, b), "x.1 1 true")
		l.Remove([]bloom.Hash{b}, now)
		want(t, "a commit that is made again, of what was forgotten", l.commit(1, a, b), "x.1 1 true")
		want(t, "stays forgotten", l.isNew(a, b), "xx")
	})
}

// A repeated Take with the same id gives the same result.
func TestTakingAgain(t *testing.T) {
	l := newLeasing(t, false)
	a, b := key(1), key(2)
	l.take(1, time.Minute, a)
	l.pass(30 * time.Second)
	fresh, others := l.take(1, time.Minute, a, a, b)
	want(t, "again", fresh, "x.x")
	want(t, "others", others, 0)
	l.pass(30 * time.Second)
	want(t, "the lease is the first one's", l.isNew(a, b), "xx")
}
