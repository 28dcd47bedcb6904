package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// clearOf clears a filter and returns the set that is served then.
func clearOf(t *testing.T, store engine.Store, s engine.Spec, b engine.Identity) (now engine.Set) {
	t.Helper()
	if err := store.Clear(context.Background(), s, b, func(set engine.Set) { now = withItems(set) }); err != nil {
		t.Fatal(err)
	}
	if now == nil {
		t.Fatal("nothing is served after Clear")
	}
	return now
}

func testClear(t *testing.T, o Opener, sample Sample) {
	s := sample.spec("uri", 1, 50_000)
	bitMap := s.HasBitMap()
	ctx := context.Background()
	store := open(t, o)
	load(t, store)
	var unknown *engine.UnknownFilterError
	if err := store.Clear(ctx, s, Identity(), func(engine.Set) { t.Error("an unknown filter is served") }); !errors.As(err, &unknown) {
		t.Errorf("clear of an unknown filter: %v, want UnknownFilterError", err)
	}
	set, err := store.Create(ctx, s, Identity())
	if err != nil {
		t.Fatal(err)
	}
	set = withItems(set)
	old := set
	for round := range uint64(3) {
		Add(t, set, Keys(set, 0, 1000))
		b := Identity()
		b.Generation = round + 2
		before := set
		set = clearOf(t, store, s, b)
		if got := set.Stats().Generation; got != b.Generation {
			t.Errorf("generation %d after the clear, want %d", got, b.Generation)
		}
		if bitMap && set.Seed() == before.Seed() {
			t.Error("the seed is that of before")
		}
		wantCount(t, "new after the clear", has(t, set, Keys(set, 0, 1000)), 1000)
		keys := Keys(before, 0, 10)
		if _, err := before.Add(ctx, keys, make([]bool, 10)); !errors.As(err, &unknown) {
			t.Errorf("Add to the set from before: %v, want UnknownFilterError", err)
		}
		if round == 1 { // nothing follows the clear
			store, set = reopen(t, o, store, s)
			wantCount(t, "new after clear and restart", has(t, set, Keys(set, 0, 1000)), 1000)
		}
	}
	if err := old.Has(ctx, Keys(old, 0, 10), make([]bool, 10)); !errors.As(err, &unknown) {
		t.Errorf("Has of the first set: %v, want UnknownFilterError", err)
	}
	Add(t, set, Keys(set, 5000, 500))
	closeStore(t, store)
	store = open(t, o)
	defer closeStore(t, store)
	sets := load(t, store)
	if set = sets[s]; set == nil || len(sets) != 1 {
		t.Fatalf("after a restart: %v", sets)
	}
	wantCount(t, "forgotten from after the clear", has(t, set, Keys(set, 5000, 500)), 0)
	if got := count(has(t, set, Keys(set, 0, 1000))); got < 995 {
		t.Errorf("%d of 1000 items from before the clear are new", got)
	}
}

// Callers add items while the filter is cleared: each batch goes into the filter as it was or
// as it is, or is told that the set is gone; and the items that were added to the last set are
// kept.
func testClearContention(t *testing.T, o Opener, sample Sample) {
	ctx := context.Background()
	store, set := one(t, o, sample, 50_000)
	s := sample.spec("uri", 1, 50_000)
	var mu sync.Mutex
	told := map[engine.Set][]bloom.Hash{}
	now := func() engine.Set { mu.Lock(); defer mu.Unlock(); return set }
	var work sync.WaitGroup
	for w := range 3 {
		work.Go(func() {
			for i := range 60 {
				set := now()
				keys := Keys(set, (w*60+i)*20, 20)
				_, err := set.Add(ctx, keys, make([]bool, 20))
				var unknown *engine.UnknownFilterError
				switch {
				case errors.As(err, &unknown):
				case err != nil:
					t.Errorf("Add beside a clear: %v", err)
				default:
					mu.Lock()
					told[set] = append(told[set], keys...)
					mu.Unlock()
				}
			}
		})
	}
	for i := range uint64(5) {
		b := Identity()
		b.Generation = i + 2
		err := store.Clear(ctx, s, b, func(s engine.Set) { mu.Lock(); defer mu.Unlock(); set = withItems(s) })
		if err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
	keys := told[set]
	store, set = reopen(t, o, store, s)
	defer closeStore(t, store)
	wantCount(t, "forgotten of the last generation", has(t, set, keys), 0)
}
