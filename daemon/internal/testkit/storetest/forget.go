package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A kind that the store does not support is refused with an error for its field, and leaves
// nothing.
func testRefused(t *testing.T, o Opener, s Sample) {
	store := open(t, o)
	load(t, store)
	var wrong *engine.SpecError
	if _, err := store.Create(context.Background(), s.spec("uri", 1, 1000), Identity()); !errors.As(err, &wrong) || wrong.Field != o.refuses(s) {
		t.Errorf("a filter of the kind %s%s: %v, want an error of its %s", s.Kind, s.Variant, err, o.refuses(s))
	}
	closeStore(t, store)
	store = open(t, o)
	defer closeStore(t, store)
	if sets := load(t, store); len(sets) != 0 {
		t.Errorf("the store holds %v", sets)
	}
}

// forget forgets keys and returns how many were seen.
func forget(t *testing.T, set engine.Forgetful, keys []bloom.Hash) int {
	t.Helper()
	n, err := set.Forget(context.Background(), keys)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Forgotten items are new again, once, and stay forgotten over a restart; nothing else is
// touched. A set that cannot forget does not implement the interface.
func testForget(t *testing.T, o Opener, s Sample) {
	store, set := one(t, o, s, 50_000)
	f, can := set.(engine.Forgetful)
	if !can {
		_, grows := set.(engine.Growing)
		_, texts := set.(engine.Similar)
		if grows && !texts && s.Exact {
			t.Error("the set grows with its items, and none can be forgotten")
		}
		closeStore(t, store)
		return
	}
	Add(t, set, Keys(set, 0, 5000))
	if got := forget(t, f, nil); got != 0 {
		t.Errorf("of no keys %d are forgotten", got)
	}
	if got := forget(t, f, append(Keys(set, 4000, 2000), Keys(set, 4000, 10)...)); got != 1000 {
		t.Errorf("%d are forgotten, want the 1000 that were seen, once", got)
	}
	if got := forget(t, f, Keys(set, 4000, 2000)); got != 0 {
		t.Errorf("again: %d are forgotten", got)
	}
	wantCount(t, "new, those that are forgotten", has(t, set, Keys(set, 0, 5000)), 1000)
	wantCount(t, "new of those forgotten", Add(t, set, Keys(set, 4000, 100)), 100)
	wantCount(t, "new a second time", Add(t, set, Keys(set, 4000, 100)), 0)
	for round := range 2 {
		store, set = reopen(t, o, store, s.spec("uri", 1, 50_000))
		for i, fresh := range has(t, set, Keys(set, 0, 5000)) {
			if want := i >= 4100; fresh != want {
				t.Fatalf("restart %d: item %d is new: %v", round, i, fresh)
			}
		}
	}
	if got := forget(t, set.(engine.Forgetful), Keys(set, 0, 5000)); got != 4100 {
		t.Errorf("%d are forgotten, want the 4100 that are left", got)
	}
	if st := set.Stats(); st.Items != 0 {
		t.Errorf("%+v of an empty filter", st)
	}
	closeStore(t, store)
	if _, err := f.Forget(context.Background(), Keys(set, 0, 10)); err == nil {
		t.Error("Forget after Close: no error")
	}
}

// testForgetContention lets callers add and forget the same n items: an item that is left was
// added once more than it was forgotten.
func testForgetContention(n int) test {
	return func(t *testing.T, o Opener, s Sample) { forgetAtOnce(t, o, s, n) }
}

func forgetAtOnce(t *testing.T, o Opener, s Sample, n int) {
	const callers, rounds = 8, 20
	store, set := one(t, o, s, 50_000)
	defer closeStore(t, store)
	f, can := set.(engine.Forgetful)
	if !can {
		var lacks *engine.KindError
		if _, err := engine.As[engine.Forgetful](s.spec("uri", 1, 50_000), set, engine.ErrForgetsNone); !errors.As(err, &lacks) {
			t.Errorf("%v, want a KindError", err)
		}
		return
	}
	var added, forgotten atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			keys, fresh := Keys(set, 0, n), make([]bool, n)
			for range rounds {
				change, do := &added, func() (int, error) { return set.Add(context.Background(), keys, fresh) }
				if caller%2 == 1 {
					change, do = &forgotten, func() (int, error) { return f.Forget(context.Background(), keys) }
				}
				got, err := do()
				if err != nil {
					t.Error(err)
				}
				change.Add(int64(got))
			}
		})
	}
	wg.Wait()
	left := int64(n - count(has(t, set, Keys(set, 0, n))))
	if added.Load()-forgotten.Load() != left {
		t.Errorf("%d were new, %d forgotten, %d are left", added.Load(), forgotten.Load(), left)
	}
}
