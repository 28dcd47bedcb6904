package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// Timing is the spec of a timing filter.
func Timing(name string, id int, expire time.Duration) engine.Spec {
	return engine.Spec{ID: id, Name: name, Kind: "timing", Params: configs.Timing{Expire: expire}}
}

// long is an expire that does not come in a test.
const long = 24 * time.Hour

// oneTiming opens an empty store with a single timing filter.
func oneTiming(t *testing.T, o Opener, expire time.Duration) (engine.Store, engine.Timed) {
	t.Helper()
	store := open(t, o)
	if sets := load(t, store); len(sets) != 0 {
		t.Fatalf("a new store holds %d filters", len(sets))
	}
	set, err := store.Create(context.Background(), Timing("news", 7, expire), Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, set.(engine.Timed)
}

// AddFor adds items to a timing filter and returns which were fresh.
func AddFor(t *testing.T, set engine.Timed, keys []bloom.Hash, expire time.Duration) []bool {
	t.Helper()
	fresh := make([]bool, len(keys))
	n, err := set.AddFor(context.Background(), keys, expire, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if got := count(fresh); got != n {
		t.Fatalf("AddFor returned %d and marked %d", n, got)
	}
	return fresh
}

// span is the time, by this process's clock, in which something was done.
type span struct{ from, to time.Time }

func timed(do func()) span {
	from := time.Now()
	do()
	return span{from, time.Now()}
}

// clockSlack is how far a store's clock may differ from this process's, whole
// milliseconds being what both count.
const clockSlack = 20 * time.Millisecond

// Items are seen until their deadline and no longer, and a hit changes nothing. Where
// the clock is real, what is wanted follows from when the calls were made: an answer is
// wrong only if no moment within its call could have given it.
func testDeadline(t *testing.T, o Opener) {
	const expire = 300 * time.Millisecond
	store, set := oneTiming(t, o, long)
	defer closeStore(t, store)
	keys := Keys(set, 0, 50)
	accepted := timed(func() { AddFor(t, set, keys, expire) })
	anew := make([]bool, len(keys)) // accepted a second time, for an hour
	for round := 0; count(anew) < len(keys); round++ {
		var looked []bool
		asked := timed(func() {
			if round%2 == 0 {
				looked = has(t, set, keys)
			} else {
				looked = AddFor(t, set, keys, time.Hour)
			}
		})
		fresh, seen := 0, 0 // of those whose first deadline counts
		for i := range keys {
			switch {
			case anew[i] && looked[i]:
				t.Fatal("an item that was accepted anew is new before its hour is over")
			case anew[i]:
			case looked[i]:
				fresh++
			default:
				seen++
			}
			anew[i] = anew[i] || round%2 == 1 && looked[i]
		}
		if o.Pass == nil {
			if fresh > 0 && asked.to.Sub(accepted.from) < expire-clockSlack {
				t.Fatalf("%d items are new %v after they were accepted, at most", fresh, asked.to.Sub(accepted.from))
			}
			if seen > 0 && asked.from.Sub(accepted.to) > expire+clockSlack {
				t.Fatalf("%d items are duplicates %v after they were accepted, at least", seen, asked.from.Sub(accepted.to))
			}
		} else if want := round*7 >= 300; (fresh > 0) != want || fresh%len(keys) != 0 {
			t.Fatalf("%d of %d items are new after %d ms", fresh, len(keys), round*7)
		}
		o.pass(7 * time.Millisecond)
	}
	o.pass(expire)
	if got := count(Add(t, set, keys)); got != 0 {
		t.Errorf("%d items that were accepted anew are new before their hour is over", got)
	}
}

// The call's expire goes before the filter's, and is that of the call which accepted.
func testExpire(t *testing.T, o Opener) {
	const short = 500 * time.Millisecond
	store, set := oneTiming(t, o, short)
	defer closeStore(t, store)
	var a, b []bloom.Hash
	for try := 0; ; try++ {
		a, b = Keys(set, try*20, 10), Keys(set, try*20+10, 10)
		took := timed(func() {
			Add(t, set, a)          // expire of the filter
			AddFor(t, set, b, long) // of the call
			AddFor(t, set, a, long) // changes nothing
			AddFor(t, set, b, time.Millisecond)
		})
		if o.Pass != nil || took.to.Sub(took.from) < short-clockSlack {
			break
		} else if try == 20 {
			t.Fatal("the machine is too slow to tell")
		}
	}
	o.pass(short + 2*clockSlack)
	if got := count(has(t, set, a)); got != 10 {
		t.Errorf("of the filter's expire: %d of 10 items have expired", got)
	}
	if got := count(has(t, set, b)); got != 0 {
		t.Errorf("of the call's expire: %d of 10 items have expired", got)
	}
	none, err := store.Create(context.Background(), Timing("none", 8, 0), Identity())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Add(context.Background(), a, make([]bool, 10)); err == nil {
		t.Error("neither filter nor call has an expire: no error")
	}
	if got := count(has(t, none, a)); got != 10 {
		t.Errorf("and %d items were remembered", 10-got)
	}
	AddFor(t, none.(engine.Timed), a, configs.MaxExpire)
	if got := count(has(t, none, a)); got != 0 {
		t.Errorf("ten years: %d items are new", got)
	}
}

func testTimingOrder(t *testing.T, o Opener) {
	store, set := oneTiming(t, o, long)
	defer closeStore(t, store)
	keys := Keys(set, 0, 4)
	batch := []bloom.Hash{keys[0], keys[1], keys[0], keys[2], keys[1]}
	for i, got := range Add(t, set, batch) {
		if want := []bool{true, true, false, true, false}[i]; got != want {
			t.Errorf("first of equal keys wins: fresh[%d] = %v, want %v", i, got, want)
		}
	}
	for i, got := range has(t, set, keys) {
		if want := i == 3; got != want {
			t.Errorf("Has: fresh[%d] = %v, want %v", i, got, want)
		}
	}
	Add(t, set, nil)
	has(t, set, nil)
	if got := count(Add(t, set, keys)); got != 1 {
		t.Errorf("after Has: %d fresh, want 1: Has must not remember", got)
	}
	// Keys that differ in one bit, or in their halves, are different.
	var near []bloom.Hash
	for bit := range 64 {
		near = append(near, bloom.Hash{Hi: 1 << bit}, bloom.Hash{Lo: 1 << bit})
	}
	if got := count(Add(t, set, near)); got != len(near) {
		t.Errorf("of %d keys that differ in a bit %d are new", len(near), got)
	}
}

// A restart keeps what has not expired, and not a moment longer.
func testTimingRestart(t *testing.T, o Opener) {
	const short = 1500 * time.Millisecond
	store, set := oneTiming(t, o, long)
	seed := set.Seed()
	for round := range 3 {
		Add(t, set, Keys(set, round*3000, 3000))
		brief := Keys(set, 1_000_000+round*10, 10)
		accepted := timed(func() { AddFor(t, set, brief, short) })
		closeStore(t, store)
		store = open(t, o)
		sets := load(t, store)
		found, ok := sets[Timing("news", 7, long)].(engine.Timed)
		if !ok {
			t.Fatalf("round %d: the filter is gone, or is none: %v", round, sets)
		}
		if set = found; set.Seed() != seed {
			t.Fatalf("round %d: seed changed", round)
		}
		if got := count(has(t, set, Keys(set, 0, 3000*(round+1)))); got != 0 {
			t.Fatalf("round %d: %d of %d items are forgotten", round, got, 3000*(round+1))
		}
		var fresh int
		asked := timed(func() { fresh = count(has(t, set, brief)) })
		if fresh > 0 && (o.Pass != nil || asked.to.Sub(accepted.from) < short-clockSlack) {
			t.Errorf("round %d: %d of 10 items are new before they expire", round, fresh)
		}
		o.pass(short + clockSlack)
		if got := count(has(t, set, brief)); got != 10 {
			t.Errorf("round %d: %d of 10 items are duplicates after they expired", round, 10-got)
		}
	}
	closeStore(t, store)
}

func testTimingContention(t *testing.T, o Opener) {
	const workers, rounds, n = 8, 6, 1500
	store, set := oneTiming(t, o, long)
	defer closeStore(t, store)
	for round := range rounds {
		wins := make([][]bool, workers)
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				keys, fresh := Keys(set, round*n, n), make([]bool, n)
				<-gate
				if _, err := set.AddFor(context.Background(), keys, long, fresh); err != nil {
					t.Error(err)
				}
				wins[w] = fresh
			})
		}
		close(gate)
		wg.Wait()
		for i := range n {
			won := 0
			for w := range workers {
				if wins[w][i] {
					won++
				}
			}
			if won != 1 {
				t.Fatalf("round %d: item %d was new for %d callers, want 1", round, i, won)
			}
		}
	}
}

func testTimingCreateDrop(t *testing.T, o Opener) {
	ctx := context.Background()
	store, set := oneTiming(t, o, long)
	bits, err := store.Create(ctx, spec("uri", 1, 10_000), Identity())
	if err != nil {
		t.Fatal(err)
	}
	keys := Keys(set, 0, 100)
	Add(t, set, keys)
	Add(t, bits, keys)
	if err := store.Drop(ctx, Timing("news", 7, long)); err != nil {
		t.Fatal(err)
	}
	var unknown *engine.UnknownFilterError
	if _, err := set.Add(ctx, keys, make([]bool, 100)); !errors.As(err, &unknown) {
		t.Errorf("Add to a dropped filter: %v, want UnknownFilterError", err)
	}
	if err := set.Has(ctx, keys, make([]bool, 100)); !errors.As(err, &unknown) {
		t.Errorf("Has of a dropped filter: %v, want UnknownFilterError", err)
	}
	again, err := store.Create(ctx, Timing("news", 7, time.Hour), Identity())
	if err != nil {
		t.Fatal(err)
	}
	if got := count(Add(t, again, Keys(again, 0, 100))); got != 100 {
		t.Errorf("made again: %d fresh, want 100", got)
	}
	if got := count(has(t, bits, keys)); got != 0 {
		t.Errorf("the bloom filter beside it has lost %d items", got)
	}
	closeStore(t, store)
	store = open(t, o)
	defer closeStore(t, store)
	sets := load(t, store)
	if len(sets) != 2 || sets[Timing("news", 7, time.Hour)] == nil || sets[spec("uri", 1, 10_000)] == nil {
		t.Errorf("after a restart: %v", sets)
	}
}

func testTimingHuge(t *testing.T, o Opener) {
	const n = 100_000
	store, set := oneTiming(t, o, long)
	defer closeStore(t, store)
	keys := Keys(set, 0, n)
	if got := count(Add(t, set, keys)); got != n {
		t.Errorf("one batch of %d: %d fresh: it is exact", n, got)
	}
	if got := count(Add(t, set, keys)); got != 0 {
		t.Errorf("again: %d fresh", got)
	}
	if st := set.Stats(); st.Items != n || st.Bytes == 0 || st.Bytes > 64*n {
		t.Errorf("stats: %+v", st)
	}
	if got := count(has(t, set, Keys(set, n, n))); got != n {
		t.Errorf("%d of %d others are taken for seen", n-got, n)
	}
}

func testNoBitMap(t *testing.T, o Opener) {
	store, set := oneTiming(t, o, long)
	defer closeStore(t, store)
	if _, ok := set.(engine.BitMap); ok {
		t.Error("a timing filter claims to be a bit-map")
	}
	if err := store.Ready(context.Background()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

func testTimingClosed(t *testing.T, o Opener) {
	store, set := oneTiming(t, o, long)
	keys := Keys(set, 0, 10)
	closeStore(t, store)
	if _, err := set.Add(context.Background(), keys, make([]bool, 10)); err == nil {
		t.Error("Add after Close: no error")
	}
	if err := set.Has(context.Background(), keys, make([]bool, 10)); err == nil {
		t.Error("Has after Close: no error")
	}
}
