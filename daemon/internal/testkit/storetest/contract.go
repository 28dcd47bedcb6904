package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

func testOrder(t *testing.T, o Opener, s Sample) {
	store, set := one(t, o, s, 10_000)
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
	wantCount(t, "new after Has, which must not remember", Add(t, set, keys), 1)
	if !s.Exact {
		return
	}
	var near []bloom.Hash
	kept, part := o.HighBits[s.Kind]
	for bit := range 64 {
		if !part || bit >= 64-kept {
			near = append(near, bloom.Hash{Hi: 1 << bit})
		}
		if s.spec("", 1, 1).DigestBits() > 64 {
			near = append(near, bloom.Hash{Lo: 1 << bit})
		}
	}
	wantCount(t, "new keys that differ in a bit, or in their halves", Add(t, set, near), len(near))
}

func testEmpty(t *testing.T, o Opener, s Sample) {
	store, set := one(t, o, s, 10_000)
	defer closeStore(t, store)
	Add(t, set, nil)
	has(t, set, nil)
	_, bits := set.(engine.BitMap)
	if want := s.spec("", 1, 1).HasBitMap(); bits != want {
		t.Errorf("the set is a bit-map: %v, and its kind has one: %v", bits, want)
	}
	if _, timed := set.(engine.Timed); timed != configs.Expires(s.Kind) {
		t.Errorf("the set is timed: %v, and items of its kind expire: %v", timed, !timed)
	}
	if st := set.Stats(); st.Items != 0 || st.Fill != 0 || st.FPR != 0 || bits && st.Bytes == 0 || st.Generation != 1 {
		t.Errorf("stats of an empty filter: %+v", st)
	}
	if err := store.Ready(context.Background()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

func testHuge(t *testing.T, o Opener, s Sample) {
	n, mistaken := 100_000, 100 // how many new ones may be called seen
	if s.Exact {
		mistaken = 0
	}
	store, set := one(t, o, s, uint64(n))
	defer closeStore(t, store)
	keys := Keys(set, 0, n)
	if got := count(Add(t, set, keys)); got < n-mistaken {
		t.Errorf("one batch of %d: %d fresh", n, got)
	}
	wantCount(t, "new a second time", Add(t, set, keys), 0)
	if !s.Exact {
		return
	}
	want := uint64(n)
	if _, texts := set.(documents); texts {
		want *= 2 // each time under another id
	}
	if st := set.Stats(); st.Items != want || st.Bytes == 0 || st.Bytes > 64*want {
		t.Errorf("stats: %+v, want %d items", st, want)
	}
	wantCount(t, "new of others", has(t, set, Keys(set, n, n)), n)
}

func testRestart(t *testing.T, o Opener, s Sample) {
	store, set := one(t, o, s, 50_000)
	seed, total := set.Seed(), 0
	for round := range 3 {
		Add(t, set, Keys(set, total, 2000))
		total += 2000
		store, set = reopen(t, o, store, s.spec("uri", 1, 50_000))
		if set.Seed() != seed {
			t.Fatalf("round %d: seed changed", round)
		}
		wantCount(t, fmt.Sprintf("forgotten in round %d", round), has(t, set, Keys(set, 0, total)), 0)
		if _, bits := set.(engine.BitMap); !bits {
			continue // others count as they go, and some from 0 after a restart
		}
		if got := set.Stats().Items; math.Abs(float64(got)-float64(total)) > float64(total)/50 {
			t.Errorf("round %d: estimate %d items, want about %d", round, got, total)
		}
	}
	closeStore(t, store)
}

// testContention lets all callers add the same batches of n items at once: each item is new for
// one of them.
func testContention(rounds, n int) test {
	return func(t *testing.T, o Opener, s Sample) { contend(t, o, s, rounds, n) }
}

func contend(t *testing.T, o Opener, s Sample, rounds, n int) {
	const workers = 8
	store, set := one(t, o, s, uint64(workers*rounds*n))
	defer closeStore(t, store)
	for round := range rounds {
		wins := make([][]bool, workers)
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				keys, fresh := Keys(set, round*n, n), make([]bool, n)
				<-gate
				if _, err := set.Add(context.Background(), keys, fresh); err != nil {
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
			if won > 1 || s.Exact && won == 0 {
				t.Fatalf("round %d: item %d was new for %d callers", round, i, won)
			}
		}
	}
}

func testIndependent(t *testing.T, o Opener, s Sample) {
	store, a := one(t, o, s, 10_000)
	defer closeStore(t, store)
	b := create(t, store, s.spec("ip", 2, 10_000))
	if _, public := a.(engine.Hashing); !public && a.Seed() == b.Seed() {
		t.Error("two filters have one seed")
	}
	Add(t, a, Keys(a, 0, 100))
	wantCount(t, "new in a second filter", Add(t, b, Keys(b, 0, 100)), 100)
}

func testCreateDrop(t *testing.T, o Opener, s Sample) {
	ctx := context.Background()
	store, set := one(t, o, s, 10_000)
	keys := Keys(set, 0, 100)
	Add(t, set, keys)
	beside := map[engine.Spec]engine.Set{} // of every kind
	for i, other := range Samples() {
		if !o.takes(other) {
			continue
		}
		spec := other.spec("beside"+other.Kind+other.Variant, i+2, 10_000)
		beside[spec] = create(t, store, spec)
		Add(t, beside[spec], keys)
	}
	if err := store.Drop(ctx, s.spec("uri", 1, 10_000)); err != nil {
		t.Fatal(err)
	}
	_, shared := store.(engine.Shared)
	if _, ends := set.(engine.Ending); ends != shared || shared && !engine.Ended(set) {
		t.Errorf("the set of a dropped filter in a store that is shared (%v) tells that it has ended: %v, %v", shared, ends, engine.Ended(set))
	}
	var unknown *engine.UnknownFilterError
	if _, err := set.Add(ctx, keys, make([]bool, 100)); !errors.As(err, &unknown) {
		t.Errorf("Add to a dropped filter: %v, want UnknownFilterError", err)
	}
	if err := set.Has(ctx, keys, make([]bool, 100)); !errors.As(err, &unknown) {
		t.Errorf("Has of a dropped filter: %v, want UnknownFilterError", err)
	}
	if err := store.Drop(ctx, s.spec("uri", 1, 10_000)); !errors.As(err, &unknown) {
		t.Errorf("second Drop: %v, want UnknownFilterError", err)
	}
	again := create(t, store, s.spec("uri", 1, 20_000))
	wantCount(t, "new when it is made again", Add(t, again, Keys(again, 0, 100)), 100)
	for spec, set := range beside {
		wantCount(t, "lost by the filter beside it, "+spec.Kind, has(t, set, keys), 0)
	}
	closeStore(t, store)
	store = open(t, o)
	defer closeStore(t, store)
	sets := load(t, store)
	if len(sets) != 1+len(beside) || sets[s.spec("uri", 1, 20_000)] == nil {
		t.Errorf("after a restart: %v", sets)
	}
	for spec := range beside {
		if sets[spec] == nil {
			t.Errorf("after a restart %s is gone", spec.Name)
		}
	}
}

func testCapacity(t *testing.T, o Opener, s Sample) {
	const n = 60_000
	store, set := one(t, o, s, n)
	defer closeStore(t, store)
	if _, grows := set.(engine.Layered); grows {
		return // testGrow is about those
	}
	Add(t, set, Keys(set, 0, n))
	wrong := n - count(has(t, set, Keys(set, n, n)))
	if rate := float64(wrong) / n; rate > 3e-4 {
		t.Errorf("at full load %v false positives, asked 1e-4", rate)
	}
	before := set.Stats()
	Add(t, set, Keys(set, n, n)) // beyond capacity: works, and shows in the stats
	if after := set.Stats(); after.FPR <= before.FPR || after.Items < n*3/2 {
		t.Errorf("twice the capacity: %+v, before %+v", after, before)
	}
	wantCount(t, "false negatives beyond capacity", has(t, set, Keys(set, 0, 2*n)), 0)
}

func testClosed(t *testing.T, o Opener, s Sample) {
	store, set := one(t, o, s, 10_000)
	keys := Keys(set, 0, 10)
	closeStore(t, store)
	if _, err := set.Add(context.Background(), keys, make([]bool, 10)); err == nil {
		t.Error("Add after Close: no error")
	}
	if err := set.Has(context.Background(), keys, make([]bool, 10)); err == nil {
		t.Error("Has after Close: no error")
	}
}

// testStripes merges the stripes of one filter into another with its header, which then
// remembers the same items.
func testStripes(t *testing.T, o Opener, s Sample) {
	ctx := context.Background()
	const capacity, n = 3_000_000, 5000 // three stripes, with some of the items in each
	store, set := one(t, o, s, capacity)
	a := set.(engine.BitMap)
	Add(t, a, Keys(a, 0, n))
	h := a.Header()
	made, err := store.Create(ctx, s.spec("copy", 2, capacity), engine.Identity{Seed: h.Seed, Generation: h.Generation, Created: h.Created})
	if err != nil {
		t.Fatal(err)
	}
	b := made.(engine.BitMap)
	if b.Header() != h {
		t.Errorf("header %+v, want %+v", b.Header(), h)
	}
	Add(t, b, Keys(b, n, 1000))
	mergeAll(t, b, a)
	at := time.Now().Truncate(time.Second)
	b.WrittenBack(at)
	if got := b.Stats().LastWriteback; !got.Equal(at) {
		t.Errorf("last writeback %v, want %v", got, at)
	}
	if err := b.MergeStripe(ctx, 0, make([]byte, 64)); err == nil {
		t.Error("a stripe of a wrong size is merged")
	}
	store, set = reopen(t, o, store, s.spec("copy", 2, capacity))
	defer closeStore(t, store)
	wantCount(t, "forgotten of those merged", has(t, set, Keys(set, 0, n+1000)), 0)
}

// mergeAll merges all stripes of a filter into another one.
func mergeAll(t *testing.T, to, from engine.BitMap) {
	t.Helper()
	buf := make([]byte, bloom.StripeBytes)
	for i := range from.Header().Stripes() {
		stripe, err := from.Stripe(t.Context(), i, buf)
		if err == nil {
			err = to.MergeStripe(t.Context(), i, stripe)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
