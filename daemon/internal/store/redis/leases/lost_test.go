package leases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// carried repeats a call until it is answered. The first time, the connection is cut after so many bytes of
// answers; carried returns the result of that.
func carried(t *testing.T, link *testserver.Cutter, bytes int, call func() error) (first error) {
	t.Helper()
	link.Cut(bytes)
	first = call()
	link.Pass()
	err := first
	for deadline := time.Now().Add(5 * time.Minute); err != nil; time.Sleep(5 * time.Millisecond) {
		if !errors.Is(err, engine.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		err = call()
	}
	return first
}

// A call whose replies are cut off at any point is repeated, and gets its answer: all of it is done, once,
// and another daemon sees that. A call with a definite error has changed nothing.
func TestLostReplies(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			const n, rounds = 300, 40
			ctx := context.Background()
			server := redistest.Start(t)
			link := testserver.NewCutter(t, server.Addr)
			_, set := opened(t, link.Addr, spec)
			_, other := opened(t, server.Addr, spec)
			doubtful := map[string]int{}
			for round := range rounds {
				at := round * 1600 / rounds
				id, keys := engine.NewReservation(), storetest.Keys(set, round*n, n)
				var got engine.Reserved
				looked := false
				first := carried(t, link, at, func() (err error) {
					if got, err = set.Reserve(ctx, id, keys, time.Hour, make([]bool, n)); err != nil && !looked {
						looked = true
						if fresh := newOf(t, other, keys); fresh != n && !errors.Is(err, engine.ErrInDoubt) {
							t.Errorf("round %d: %d of %d are new after %v", round, fresh, n, err)
						}
					}
					return err
				})
				note := func(what string, err error) {
					if errors.Is(err, engine.ErrInDoubt) {
						doubtful[what]++
					}
				}
				note("reserve", first)
				if got.Fresh != n || newOf(t, other, keys) != 0 {
					t.Fatalf("round %d: reserve: %+v, %d are new", round, got, newOf(t, other, keys))
				}
				var done engine.Settled
				note("commit", carried(t, link, at/2, func() (err error) {
					done, err = set.Commit(ctx, id, keys[:n/2], 0, make([]bool, n/2))
					return err
				}))
				if done.Done != n/2 {
					t.Fatalf("round %d: commit: %+v", round, done)
				}
				note("release", carried(t, link, at/2, func() (err error) {
					done, err = set.Release(ctx, id, keys[n/2:], make([]bool, n-n/2))
					return err
				}))
				if done.Done != n-n/2 {
					t.Fatalf("round %d: release: %+v", round, done)
				}
				if a, b := newOf(t, other, keys[:n/2]), newOf(t, other, keys[n/2:]); a != 0 || b != n-n/2 {
					t.Fatalf("round %d: %d of %d that were committed are new, %d of %d that were released", round, a, n/2, b, n-n/2)
				}
			}
			for _, what := range []string{"reserve", "commit", "release"} {
				if doubtful[what] < rounds/5 {
					t.Errorf("%d of %d calls of %s were in doubt", doubtful[what], rounds, what)
				}
			}
		})
	}
}

// Callers of two daemons, one of which constantly loses replies.
func TestReservingWithLostReplies(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			link := testserver.NewCutter(t, server.Addr)
			_, a := opened(t, link.Addr, spec)
			_, b := opened(t, server.Addr, spec)
			l := leasetest.New(3000, clock(t, server.Addr))
			race(t, l, []engine.Reserving{a, b}, func(answered func(int)) {
				for cut := range 60 {
					link.CutOnce(cut * 13)
					answered(10)
				}
			})
			link.Pass()
			l.Check(t, leasetest.Set{Reserving: b})
			if link.Cuts() < 30 {
				t.Errorf("%d connections were cut", link.Cuts())
			}
		})
	}
}
