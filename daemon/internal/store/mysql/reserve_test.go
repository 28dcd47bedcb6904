package mysql

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Two daemons have 16 callers that reserve while the server is killed and restarted, and batches are
// sent in one statement or in several: no item is held by two callers, committed items stay
// committed, and nothing is stuck.
func TestServerKilledReserving(t *testing.T)       { killedReserving(t, 3) }
func TestSystemServerKilledReserving(t *testing.T) { t.Parallel(); killedReserving(t, 25) }

func killedReserving(t *testing.T, rounds int) {
	server := mysqltest.Start(t)
	c := config(server)
	one, a := opened(t, c)
	_, b := opened(t, c)
	db := server.Open(c.Database)
	t.Cleanup(func() { _ = db.Close() })
	l := leasetest.New(3000, leasetest.NewClock(func() (at time.Time, err error) {
		var ms int64
		err = db.QueryRowContext(context.Background(), "select "+serverNow).Scan(&ms)
		return time.UnixMilli(ms), err
	}))
	done := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() { l.Run(func() leasetest.Caller { return leasetest.Set{Reserving: []*Set{a, b}[i%2]} }, done) })
	}
	for round := range rounds + 1 {
		small(one, int64(5+rand.IntN(100))) // until the next check of the server
		want := l.Answers() + 150
		testserver.Await(t, "callers are answered", func() bool { return l.Answers() >= want || l.Faults() != nil })
		if round < rounds {
			server.Kill()
			server.Run()
		}
	}
	close(done)
	callers.Wait()
	testserver.Await(t, "the server is seen", func() bool { return one.Ready(context.Background()) == nil })
	l.Check(t, leasetest.Set{Reserving: b})
}

// A call whose answer is cut off at any point is repeated, and gets its answer.
func TestLostAnswersOfReservations(t *testing.T) {
	for name, inStatement := range map[string]int64{"statement": pieceKeys, "transaction": 7} {
		t.Run(name, func(t *testing.T) {
			server := mysqltest.Start(t)
			c := config(server)
			link := testserver.NewCutter(t, c.Addr)
			c.Addr = link.Addr
			store, set := opened(t, c)
			const n, rounds = 40, 60
			ctx := context.Background()
			// carried repeats a call until it is carried out; at most the last attempt was.
			carried := func(round int, call func() error) error {
				small(store, inStatement)
				link.CutOnce(round * 11)
				err := call()
				link.Pass()
				for errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
					err = call()
				}
				return err
			}
			for round := range rounds {
				id, keys := engine.NewReservation(), storetest.Keys(set, round*n, n)
				var got engine.Reserved
				err := carried(round, func() (err error) {
					got, err = set.Reserve(ctx, id, keys, time.Hour, make([]bool, n))
					return err
				})
				if err != nil || got.Fresh != n {
					t.Fatalf("round %d: %+v, %v", round, got, err)
				}
				var done engine.Settled
				err = carried(round, func() (err error) {
					done, err = set.Commit(ctx, id, keys[:n/2], 0, make([]bool, n/2))
					return err
				})
				if err != nil || done.Done != n/2 {
					t.Fatalf("round %d: commit: %+v, %v", round, done, err)
				}
				err = carried(round, func() (err error) {
					done, err = set.Release(ctx, id, nil, nil)
					return err
				})
				if err != nil || done.Done != n/2 {
					t.Fatalf("round %d: release: %+v, %v", round, done, err)
				}
			}
			fresh := make([]bool, rounds*n)
			if err := set.Has(ctx, storetest.Keys(set, 0, rounds*n), fresh); err != nil {
				t.Fatal(err)
			}
			for i, is := range fresh {
				if want := i%n >= n/2; is != want {
					t.Fatalf("item %d is new: %v", i, is)
				}
			}
			if link.Cuts() < rounds/2 {
				t.Errorf("%d connections were cut", link.Cuts())
			}
		})
	}
}

// A reservation is removed when its time has come, with the items that it holds; the reservations of
// a filter that was cleared are removed at once.
func TestLetGo(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	c := config(server)
	store, set := opened(t, c)
	db := server.Open(c.Database)
	defer db.Close()
	rows := func(table string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(ctx, "select count(*) from "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := engine.NewReservation(), engine.NewReservation()
	for i, id := range []engine.Reservation{a, b} {
		if got, err := set.Reserve(ctx, id, storetest.Keys(set, i*100, 100), time.Hour, make([]bool, 100)); got.Fresh != 100 || err != nil {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := set.Commit(ctx, a, storetest.Keys(set, 0, 40), 0, make([]bool, 40)); err != nil {
		t.Fatal(err)
	}
	if got := set.Stats().Items; got != 40 {
		t.Errorf("%d items, want the 40 that are seen", got)
	}
	if err := set.recount(ctx); err != nil || set.Stats().Items != 40 {
		t.Errorf("counted: %d items, %v", set.Stats().Items, err)
	}
	server.Exec("update " + c.Database + "." + reservationsTable + " set until = 1, ends = 1, goes = 2 where check_hi = " + strconv.FormatUint(a.Hi, 10))
	testserver.Await(t, "the reservation is let go of", func() bool { return rows(reservationsTable) == 1 })
	if items, reserved := rows(set.table), rows(reservedTable); items != 140 || reserved != 100 {
		t.Errorf("%d rows of items and %d that are reserved are left", items, reserved)
	}
	if _, err := set.Commit(ctx, a, nil, 0, nil); !errors.Is(err, engine.ErrNoReservation) {
		t.Errorf("commit of what was let go of: %v", err)
	}
	next := storetest.Identity()
	if err := store.Clear(ctx, spec(1, "pages"), next, func(s engine.Set) { set = s.(*Set) }); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Commit(ctx, b, nil, 0, nil); !errors.Is(err, engine.ErrNoReservation) {
		t.Errorf("commit in a filter that was cleared: %v", err)
	}
	testserver.Await(t, "all is let go of", func() bool { return rows(reservationsTable)+rows(reservedTable) == 0 })
}

// A daemon that was started before anything was reserved finds the leases that another one has given,
// and takes the items when those end.
func TestLeasesOfAnotherDaemon(t *testing.T) {
	ctx := context.Background()
	c := config(mysqltest.Start(t))
	_, a := opened(t, c)
	_, b := opened(t, c)
	keys := storetest.Keys(a, 0, 10)
	if _, err := a.Reserve(ctx, engine.NewReservation(), keys, time.Millisecond, make([]bool, 10)); err != nil {
		t.Fatal(err)
	}
	taken := 0
	testserver.Await(t, "the items are new", func() bool {
		fresh := make([]bool, 10)
		n, err := b.Add(ctx, keys, fresh)
		if err != nil {
			t.Fatal(err)
		}
		taken += n
		return taken == 10
	})
	if n, err := a.Add(ctx, keys, make([]bool, 10)); n != 0 || err != nil {
		t.Errorf("%d are new twice, %v", n, err)
	}
}

// Items that others take when a lease has ended count from then on, and those that are reserved do not.
func TestItemsTakenAfterALeaseCount(t *testing.T) {
	ctx := context.Background()
	_, set := opened(t, config(mysqltest.Start(t)))
	for i, lease := range []time.Duration{time.Millisecond, time.Hour} {
		if _, err := set.Reserve(ctx, engine.NewReservation(), storetest.Keys(set, 10*i, 10), lease, make([]bool, 10)); err != nil {
			t.Fatal(err)
		}
	}
	taken := 0
	testserver.Await(t, "the items are new", func() bool {
		n, err := set.Add(ctx, storetest.Keys(set, 0, 6), make([]bool, 6))
		if err != nil {
			t.Fatal(err)
		}
		taken += n
		return taken == 6
	})
	if err := set.recount(ctx); err != nil {
		t.Fatal(err)
	}
	if got := set.Stats().Items; got != 6 {
		t.Errorf("%d items, want the 6 that were taken", got)
	}
}
