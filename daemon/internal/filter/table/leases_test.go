package table

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Replaying the journal into an empty table gives the same table, at any moment.
func TestNoRaceLeasesFromTheJournal(t *testing.T) {
	bothKinds(t, func(t *testing.T, timed bool) {
		l := newLeasing(t, timed)
		rnd := rand.New(rand.NewPCG(3, 4))
		some := func() []bloom.Hash {
			keys := make([]bloom.Hash, 1+rnd.IntN(20))
			for i := range keys {
				keys[i] = key(rnd.IntN(200))
			}
			return keys
		}
		var file []Reservation // from some moment, with its keys at that time
		var entries []Entry
		from := 0
		for round := range 3000 {
			id := uint64(round - rnd.IntN(30))
			switch rnd.IntN(6) {
			case 0, 1:
				l.take(uint64(round), time.Duration(1+rnd.IntN(60))*time.Second, some()...)
			case 2:
				l.commit(id, some()...)
			case 3:
				l.release(id, some()...)
			case 4:
				now, _ := l.now()
				l.Remove(some(), now)
			case 5:
				l.pass(time.Duration(rnd.IntN(20)) * time.Second)
				if rnd.IntN(4) == 0 {
					l.add(some()...)
				}
			}
			if rnd.IntN(200) == 0 { // entries written after from do no harm
				from = len(l.journal)
				file, entries = nil, nil
				now, _ := l.now()
				for i := range Parts {
					if rnd.IntN(40) == 0 {
						l.add(some()...)
						l.take(uint64(round)+1e6, time.Minute, some()...)
						l.commit(uint64(round)+1e6, some()...)
					}
					entries = l.Part(i, now, entries)
				}
				l.EachReservation(func(r Reservation) error { file = append(file, r); return nil })
			}
			if round%100 != 99 {
				continue
			}
			for _, start := range []int{0, from} {
				again := newLeasing(t, timed)
				again.time.Store(l.time.Load())
				if start > 0 {
					now, _ := l.now()
					if err := again.Put(now, entries...); err != nil {
						t.Fatal(err)
					}
					for _, r := range file {
						if err := again.Restore(r); err != nil {
							t.Fatal(err)
						}
					}
				}
				nowOf := func() int64 { now, _ := again.now(); return now }
				if err := again.Apply(l.journal[start:], nowOf, func(int64) {}); err != nil {
					t.Fatal(err)
				}
				alike(t, l, again)
			}
			if t.Failed() {
				t.Fatalf("round %d", round)
			}
		}
	})
}

// alike fails if two tables differ in keys or in their holders.
func alike(t *testing.T, a, b *leasing) {
	t.Helper()
	for i := range 200 {
		k := key(i)
		if got, want := b.isNew(k), a.isNew(k); got != want {
			t.Errorf("key %d is new: %s, want %s", i, got, want)
		}
		l := k.Hi >> 56 / share
		if got, want := b.held[l][k], a.held[l][k]; got != want {
			t.Errorf("key %d: %v, want %v", i, got, want)
		}
	}
	for id, r := range a.leases.of {
		other := b.leases.of[id]
		if other == nil {
			if r.goes > a.time.Load() && len(r.keys) > 0 {
				t.Errorf("reservation %d is gone", id)
			}
			continue
		}
		for k, was := range r.keys {
			state, got := was.state, other.keys[k].state
			if state == Lost || got == Lost { // noticed only when it is settled
				continue
			}
			if got != state {
				t.Errorf("reservation %d: a key is %d, want %d", id, got, state)
			}
		}
	}
}

func TestApplyOfANewerVersion(t *testing.T) {
	l := newLeasing(t, false)
	err := l.Apply([]bloom.Hash{key(1), tagged(9, 1, 1)}, func() int64 { return Still }, func(int64) {})
	if err == nil {
		t.Error("no error")
	}
}

// No two of 16 callers hold a key at the same time, and a committed key is never new.
func TestLeasesUnderContention(t *testing.T) {
	bothKinds(t, func(t *testing.T, timed bool) {
		const callers, n, rounds = 16, 300, 150
		l := newLeasing(t, timed)
		l.OnChange(func([]bloom.Hash) {})
		all := keys(0, n)
		var owner, committed [n]atomic.Int64
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(5, uint64(caller)))
				for round := range rounds {
					id := uint64(1 + caller + round*callers)
					at := rnd.IntN(n - 20)
					part, fresh := all[at:at+20], make([]bool, 20)
					now, until := l.now()
					l.Take(bloom.Hash{Lo: id}, part, now, 1<<40, fresh)
					var mine []bloom.Hash
					for i, is := range fresh {
						if is {
							mine = append(mine, part[i])
							if committed[at+i].Load() != 0 {
								t.Errorf("key %d was given out although it is committed", at+i)
							}
							if !owner[at+i].CompareAndSwap(0, int64(id)) {
								t.Errorf("key %d was given to two", at+i)
							}
						}
					}
					if mine == nil {
						continue
					}
					keep := rnd.IntN(4) == 0
					for i, is := range fresh {
						if is {
							owner[at+i].Store(0)
							if keep {
								committed[at+i].Store(1)
							}
						}
					}
					lost := make([]bool, len(mine))
					var result Settled
					if keep {
						result, _, _ = l.Commit(bloom.Hash{Lo: id}, mine, now, until, lost)
					} else {
						result, _ = l.Release(bloom.Hash{Lo: id}, mine, lost)
					}
					if result.Done != len(mine) || slices.Contains(lost, true) {
						t.Errorf("%+v of %d keys, with leases that run", result, len(mine))
					}
				}
			})
		}
		wg.Wait()
		for i := range all {
			if isNew := l.isNew(all[i]) == "x"; isNew == (committed[i].Load() == 1) {
				t.Errorf("key %d is new: %v", i, isNew)
			}
		}
		sound(t, l.Table)
	})
}

// The counted memory of reservations is about their real memory.
func TestNoRaceBytesOfAReservedKey(t *testing.T) {
	l := newLeasing(t, false)
	l.OnChange(func([]bloom.Hash) {})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const each, n = 100, 300_000
	for i := 0; i < n; i += each {
		l.take(uint64(i), time.Minute, keys(i, each)...)
	}
	took, counted := heap()-before, l.Memory()
	t.Logf("%.1f bytes a reserved key, counted %.1f", float64(took)/n, float64(counted)/n)
	if float64(counted) < 0.8*float64(took) || float64(counted) > 1.6*float64(took) {
		t.Errorf("%d bytes are counted of %d", counted, took)
	}
	l.pass(time.Hour)
	l.SweepLeases()
	if got := l.Memory(); got != 0 {
		t.Errorf("%d bytes are counted when all have gone", got)
	}
	runtime.KeepAlive(l)
}
