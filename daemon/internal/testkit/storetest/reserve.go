package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// reserving opens a store with a filter whose items can be reserved; nil: they cannot.
func reserving(t *testing.T, o Opener, s Sample) (engine.Store, engine.Reserving) {
	t.Helper()
	store, set := one(t, o, s, 50_000)
	r, can := set.(engine.Reserving)
	if can {
		return store, r
	}
	defer closeStore(t, store)
	_, grows := set.(engine.Growing)
	_, texts := set.(engine.Similar)
	if grows && !texts && s.Exact {
		t.Error("the set grows with its items, and none can be reserved")
	}
	var lacks *engine.KindError
	if _, err := engine.As[engine.Reserving](s.spec("uri", 1, 50_000), set, engine.ErrReservesNone); !errors.As(err, &lacks) {
		t.Errorf("%v, want a KindError", err)
	}
	return nil, nil
}

// reserve reserves keys and returns which were taken.
func reserve(t *testing.T, set engine.Reserving, id engine.Reservation, keys []bloom.Hash, lease time.Duration, held int) []bool {
	t.Helper()
	fresh := make([]bool, len(keys))
	got, err := set.Reserve(context.Background(), id, keys, lease, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if got.Fresh != count(fresh) || got.Held != held {
		t.Fatalf("Reserve returned %+v and marked %d, want %d held", got, count(fresh), held)
	}
	return fresh
}

// settle commits or releases keys and returns which were lost.
func settle(t *testing.T, set engine.Reserving, commit bool, id engine.Reservation, keys []bloom.Hash, want engine.Settled) []bool {
	t.Helper()
	var got engine.Settled
	var err error
	lost := make([]bool, len(keys))
	if keys == nil {
		lost = nil
	}
	if commit {
		got, err = set.Commit(context.Background(), id, keys, 0, lost)
	} else {
		got, err = set.Release(context.Background(), id, keys, lost)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != want || keys != nil && count(lost) != want.Lost {
		t.Fatalf("%+v, and %d marked as lost; want %+v", got, count(lost), want)
	}
	return lost
}

func reload(t *testing.T, o Opener, s Sample, store engine.Store) (engine.Store, engine.Reserving) {
	t.Helper()
	store, set := reopen(t, o, store, s.spec("uri", 1, 50_000))
	return store, set.(engine.Reserving)
}

// A reserved item is given to nobody else, and is committed or released once; all of this
// survives restarts. A repeated call gets the same answer.
func testReserve(t *testing.T, o Opener, s Sample) {
	store, set := reserving(t, o, s)
	if store == nil {
		return
	}
	a, b, c := engine.NewReservation(), engine.NewReservation(), engine.NewReservation()
	Add(t, set, Keys(set, 0, 100))
	reserve(t, set, c, nil, time.Hour, 0)
	wantCount(t, "taken, those that are new, once", reserve(t, set, a, append(Keys(set, 0, 1000), Keys(set, 100, 50)...), time.Hour, 0), 900)
	wantCount(t, "taken, those that nobody has", reserve(t, set, b, Keys(set, 500, 1000), time.Hour, 500), 500)
	wantCount(t, "new to Add of those reserved", Add(t, set, Keys(set, 900, 100)), 0)
	for round := range 3 {
		wantCount(t, fmt.Sprintf("new after %d restarts", round), has(t, set, Keys(set, 0, 1600)), 100)
		settle(t, set, true, a, Keys(set, 100, 200), engine.Settled{Done: 200})
		settle(t, set, true, a, append(Keys(set, 100, 10), Keys(set, 100, 10)...), engine.Settled{Done: 10})
		settle(t, set, false, b, Keys(set, 1400, 100), engine.Settled{Done: 100})
		lost := settle(t, set, true, b, Keys(set, 990, 20), engine.Settled{Done: 10, Lost: 10})
		if !lost[0] || lost[19] {
			t.Errorf("lost: %v", lost)
		}
		settle(t, set, false, a, Keys(set, 299, 2), engine.Settled{Done: 1, Lost: 1})
		settle(t, set, true, b, Keys(set, 1499, 1), engine.Settled{Lost: 1})
		if fresh := has(t, set, Keys(set, 1400, 200)); count(fresh) != 200 {
			t.Fatalf("restart %d: %d are new of those that were released, or never added", round, count(fresh))
		}
		if fresh := has(t, set, Keys(set, 300, 1)); !fresh[0] {
			t.Errorf("restart %d: what was released is not new", round)
		}
		settle(t, set, false, a, []bloom.Hash{}, engine.Settled{})
		store, set = reload(t, o, s, store)
		reserve(t, set, engine.NewReservation(), Keys(set, 0, 300), time.Hour, 0) // all are seen
		held := reserve(t, set, c, Keys(set, 301, 1098), time.Hour, 1098-10)
		if count(held) != 0 { // ten are committed, the others reserved
			t.Fatalf("restart %d: %d are given out a second time", round, count(held))
		}
		// As before, for the next round:
		reserve(t, set, a, Keys(set, 300, 1), time.Hour, 0)
		reserve(t, set, b, Keys(set, 1400, 100), time.Hour, 0)
	}
	settle(t, set, true, a, nil, engine.Settled{Done: 900})
	settle(t, set, true, a, nil, engine.Settled{Done: 900})
	settle(t, set, false, a, nil, engine.Settled{})
	settle(t, set, false, b, nil, engine.Settled{Done: 490})
	if fresh := has(t, set, Keys(set, 0, 1500)); count(fresh) != 490 {
		t.Errorf("%d are new, want the 490 that were released", count(fresh))
	}
	for _, keys := range [][]bloom.Hash{nil, Keys(set, 0, 1)} {
		_, err := set.Commit(context.Background(), engine.NewReservation(), keys, 0, make([]bool, len(keys)))
		_, err2 := set.Release(context.Background(), engine.NewReservation(), keys, make([]bool, len(keys)))
		if !errors.Is(err, engine.ErrNoReservation) || !errors.Is(err2, engine.ErrNoReservation) {
			t.Errorf("an unknown reservation: %v, %v", err, err2)
		}
	}
	closeStore(t, store)
	if _, err := set.Reserve(context.Background(), c, Keys(set, 0, 1), time.Hour, make([]bool, 1)); err == nil {
		t.Error("Reserve after Close: no error")
	}
}

// A lease ends by itself; until another takes an item, its reservation can still commit it.
// Forget ends a lease at once.
func testLeaseEnds(t *testing.T, o Opener, s Sample) {
	store, set := reserving(t, o, s)
	if store == nil {
		return
	}
	defer func() { closeStore(t, store) }()
	a, b := engine.NewReservation(), engine.NewReservation()
	const lease = 2 * time.Second
	reserve(t, set, a, Keys(set, 0, 100), lease, 0)
	store, set = reload(t, o, s, store)
	if o.Pass != nil { // to the millisecond; leasetest tests stores with a real clock
		o.pass(lease - time.Millisecond)
		reserve(t, set, b, Keys(set, 0, 100), time.Hour, 100)
		o.pass(time.Millisecond)
	} else {
		o.pass(lease)
	}
	wantCount(t, "new when the lease has ended", has(t, set, Keys(set, 0, 100)), 100)
	wantCount(t, "given to another", reserve(t, set, b, Keys(set, 0, 20), time.Hour, 0), 20)
	wantCount(t, "new to Add", Add(t, set, Keys(set, 20, 10)), 10)
	for range 2 {
		settle(t, set, true, a, Keys(set, 0, 50), engine.Settled{Done: 20, Lost: 30})
		settle(t, set, false, a, Keys(set, 25, 30), engine.Settled{Done: 5, Lost: 25})
		store, set = reload(t, o, s, store)
	}
	settle(t, set, true, b, nil, engine.Settled{Done: 20})
	wantCount(t, "new of those committed or added", has(t, set, Keys(set, 0, 50)), 0)
	c := engine.NewReservation()
	reserve(t, set, c, Keys(set, 200, 10), time.Hour, 0)
	if n, err := set.(engine.Forgetful).Forget(context.Background(), Keys(set, 200, 5)); n != 0 || err != nil {
		t.Errorf("%d that are reserved are forgotten, %v", n, err)
	}
	store, set = reload(t, o, s, store)
	wantCount(t, "new, those that were forgotten", has(t, set, Keys(set, 200, 10)), 5)
	settle(t, set, true, c, nil, engine.Settled{Done: 5, Lost: 5})
}

// A call that is repeated, because its answer was lost or is still to come, gets the same
// answer.
func testReserveAgain(t *testing.T, o Opener, s Sample) {
	const n = 600
	store, set := reserving(t, o, s)
	if store == nil {
		return
	}
	defer func() { closeStore(t, store) }()
	id, keys := engine.NewReservation(), Keys(set, 0, n)
	Add(t, set, keys[:100])
	reserve(t, set, engine.NewReservation(), keys[100:200], time.Hour, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			fresh := make([]bool, n)
			got, err := set.Reserve(context.Background(), id, keys, time.Hour, fresh)
			if err != nil || got != (engine.Reserved{Fresh: n - 200, Held: 100}) || count(fresh) != n-200 {
				t.Errorf("at the same time: %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	store, set = reload(t, o, s, store)
	wantCount(t, "given when the call is made again", reserve(t, set, id, append(keys, keys[500:]...), time.Hour, 100), n-200)
	settle(t, set, true, id, keys[200:300], engine.Settled{Done: 100})
	wantCount(t, "given of those seen", reserve(t, set, id, keys[200:300], time.Hour, 0), 0)
	settle(t, set, true, id, nil, engine.Settled{Done: n - 200})
}

// Of 16 callers no two hold an item at the same time, and a committed item is not given out
// again.
func testReserveContention(t *testing.T, o Opener, s Sample) {
	const callers, rounds, n = 16, 25, 400
	store, set := reserving(t, o, s)
	if store == nil {
		return
	}
	defer closeStore(t, store)
	all := Keys(set, 0, n)
	var owner [n]atomic.Int32
	var committed [n]atomic.Bool
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			ctx, rnd := context.Background(), rand.New(rand.NewPCG(7, uint64(caller)))
			for range rounds {
				at, id, fresh := rnd.IntN(n-50), engine.NewReservation(), make([]bool, 50)
				keys := all[at : at+50]
				if _, err := set.Reserve(ctx, id, keys, time.Hour, fresh); err != nil {
					t.Error(err)
					return
				}
				var mine []bloom.Hash
				for i, is := range fresh {
					if !is {
						continue
					}
					mine = append(mine, keys[i])
					if committed[at+i].Load() || !owner[at+i].CompareAndSwap(0, int32(caller+1)) {
						t.Errorf("item %d: committed %v, held by %d", at+i, committed[at+i].Load(), owner[at+i].Load())
					}
				}
				if mine == nil {
					continue
				}
				keep := rnd.IntN(3) == 0
				for i, is := range fresh {
					if is {
						owner[at+i].Store(0)
						committed[at+i].Store(keep)
					}
				}
				var got engine.Settled
				var err error
				if keep {
					got, err = set.Commit(ctx, id, mine, 0, make([]bool, len(mine)))
				} else {
					got, err = set.Release(ctx, id, nil, nil)
				}
				if want := (engine.Settled{Done: len(mine)}); got != want || err != nil {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	for i, fresh := range has(t, set, all) {
		if fresh == committed[i].Load() {
			t.Errorf("item %d is new: %v", i, fresh)
		}
	}
}
