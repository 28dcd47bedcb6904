package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Replies are lost while items are forgotten. A definite answer is true: all of them are new,
// or none is; and a repeated call forgets the rest, for both daemons.
func TestForgetRepliesLost(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t)
		line := testserver.NewCutter(t, server.Addr)
		_, s := open(t, config(line.Addr))
		_, other := open(t, config(server.Addr))
		f, can := s.(engine.Forgetful)
		if !can {
			return
		}
		const rounds, n = 30, 300
		doubtful := 0
		for round := range rounds {
			from := round * n
			for _, set := range []engine.Set{s, other} { // in both mirrors
				addUntilAnswered(t, set, from, n)
			}
			keys := storetest.Keys(s, from, n)
			line.Cut(round * 600 / rounds)
			_, err := f.Forget(context.Background(), keys)
			line.Pass()
			left := n
			switch {
			case err == nil:
				left = 0
			case errors.Is(err, engine.ErrInDoubt):
				doubtful++
				left = -1
			case !errors.Is(err, engine.ErrUnavailable):
				t.Fatal(err)
			}
			isNew := make([]bool, n)
			if err := other.Has(context.Background(), storetest.Keys(other, from, n), isNew); err != nil {
				t.Fatal(err)
			}
			if seen := n - countOf(isNew); left >= 0 && seen != left {
				t.Fatalf("round %d: %d are seen after %v, want %d", round, seen, err, left)
			}
			testserver.AwaitNil(t, "the rest is forgotten", func() error {
				_, err := f.Forget(context.Background(), keys)
				return err
			})
			w := wins{}
			for _, set := range []engine.Set{other, s} {
				isNew, _ := addUntilAnswered(t, set, from, n)
				w.note(from, isNew)
			}
			for i := from; i < from+n; i++ {
				if w[i] != 1 {
					t.Fatalf("round %d: item %d is new %d times after it was forgotten", round, i, w[i])
				}
			}
		}
		if doubtful < rounds/4 {
			t.Errorf("only %d of %d calls were in doubt", doubtful, rounds)
		}
	})
}

// A witness with a lower count, or overwritten by another program, counts as lost, and is mended:
// forgotten items are new once, and nothing else is.
func TestWitnessWrittenOver(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"0", "mine"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storeA, a := openedExact(t, config(server.Addr))
			storeB, b := openedExact(t, config(server.Addr))
			meet(t, storeA, storeB)
			addTo(t, a, 0, 2000)
			addTo(t, b, 0, 2000)
			forgetOf(t, a, 0, 1000)
			addTo(t, b, 5000, 1000) // b learns of it
			for g := range forgotten.Groups {
				server.CLI("set", a.Witness(g), value)
			}
			if n := addOnceInSync(t, b, 0, 2000) + addOnceInSync(t, a, 0, 2000); n != 1000 {
				t.Errorf("%d are new, want the 1000 that were forgotten", n)
			}
			waitReady(t, storeA, storeB)
			if got := forgetOf(t, b, 0, 500); got != 500 {
				t.Errorf("%d of 500 are forgotten", got)
			}
			if n := addTo(t, a, 0, 2000); n != 500 {
				t.Errorf("%d are new, want 500", n)
			}
		})
	}
}

// The keys of a dropped exact filter are removed from Redis, and none of its successor's.
func TestExactDropCleansUp(t *testing.T) {
	t.Parallel()
	forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t, "--set-max-intset-entries", "16")
		store, s := open(t, config(server.Addr))
		addTo(t, s, 0, 60_000)
		if _, can := s.(engine.Forgetful); can {
			forgetOf(t, s, 0, 100)
		}
		e := s.(base.Filter).Base().Entry
		old := registry.ItemPrefix(e)
		if err := store.Drop(context.Background(), e.Spec); err != nil {
			t.Fatal(err)
		}
		s, err := store.Create(context.Background(), e.Spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		if n := addTo(t, s, 0, 3000); n != 3000 {
			t.Errorf("re-created: %d of 3000 items are new", n)
		}
		testserver.Await(t, "no keys of the dropped filter are left", func() bool { return !strings.Contains(server.CLI("--scan"), old) })
		if n := addTo(t, s, 0, 3000); n != 0 {
			t.Errorf("re-created: %d items are new again", n)
		}
	})
}
