package leases_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

func reserve(t *testing.T, set engine.Reserving, id engine.Reservation, keys []bloom.Hash, lease time.Duration) engine.Reserved {
	t.Helper()
	got, err := set.Reserve(context.Background(), id, keys, lease, make([]bool, len(keys)))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func added(t *testing.T, set engine.Set, keys []bloom.Hash) int {
	t.Helper()
	n, err := set.Add(context.Background(), keys, make([]bool, len(keys)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newOf(t *testing.T, set engine.Set, keys []bloom.Hash) (n int) {
	t.Helper()
	isNew := make([]bool, len(keys))
	if err := set.Has(context.Background(), keys, isNew); err != nil {
		t.Fatal(err)
	}
	for _, is := range isNew {
		if is {
			n++
		}
	}
	return n
}

// A daemon that has never seen a reservation meets the first one of another daemon: held items are
// not new to it. When the lease has ended they are, though it has asked for them before. Items that
// the daemon has mirrored stay seen.
func TestFirstLeaseOfAnotherDaemon(t *testing.T) {
	forEach(t, func(t *testing.T, addr string, spec engine.Spec) {
		_, a := opened(t, addr, spec)
		_, b := opened(t, addr, spec)
		keys := storetest.Keys(a, 0, 1000)
		if n := added(t, b, keys[:500]); n != 500 {
			t.Fatalf("%d of 500 are new", n)
		}
		id := engine.NewReservation()
		const lease = 3 * time.Second
		asked := time.Now()
		if got := reserve(t, a, id, keys, lease); got != (engine.Reserved{Fresh: 500}) {
			t.Fatalf("%+v, want the 500 that nobody has", got)
		}
		n := added(t, b, keys[:900])
		m := newOf(t, b, keys[500:])
		if (n != 0 || m != 0) && time.Since(asked) < lease {
			t.Fatalf("%d of 400 that another holds are new, and %d of 500", n, m)
		}
		testserver.Await(t, "the lease ends", func() bool { return newOf(t, b, keys[900:]) >= 100 })
		if got := n + added(t, b, append(keys[500:900:900], keys[500:900]...)); got != 400 {
			t.Fatalf("%d of 400 are new when the lease has ended, each once", got)
		}
		settled, err := a.Commit(context.Background(), id, nil, 0, nil)
		if err != nil || settled != (engine.Settled{Done: 100, Lost: 400}) {
			t.Fatalf("%+v, %v: want the 100 that nobody else has taken", settled, err)
		}
		if n := newOf(t, b, keys); n != 0 {
			t.Errorf("%d are new", n)
		}
	})
}

// Redis comes back with its file from before items were committed, and the leases of that time:
// committed items are seen, even when the leases have ended.
func TestResyncOfCommitted(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store, a := opened(t, server.Addr, spec)
			keys, id := storetest.Keys(a, 0, 600), engine.NewReservation()
			const lease = 5 * time.Second
			if got := reserve(t, a, id, keys, lease); got.Fresh != len(keys) {
				t.Fatalf("%+v", got)
			}
			server.CLI("save")
			if got, err := a.Commit(context.Background(), id, keys[:400], 0, make([]bool, 400)); err != nil || got.Done != 400 {
				t.Fatalf("%+v, %v", got, err)
			}
			server.Kill()
			server.Run()
			awaitReady(t, store)
			testserver.Await(t, "the lease ends", func() bool { return newOf(t, a, keys[400:]) >= 200 })
			if n := newOf(t, a, keys[:400]); n != 0 {
				t.Errorf("%d of 400 that were committed are new", n)
			}
			if got := reserve(t, a, engine.NewReservation(), keys, lease); got.Fresh != 200 {
				t.Errorf("%+v, want the 200 that were not committed", got)
			}
		})
	}
}

func awaitReady(t *testing.T, store *redisstore.Store) {
	t.Helper()
	testserver.AwaitNil(t, "ready", func() error { return store.Ready(context.Background()) })
}

// What reservations leave in Redis is removed when nobody can ask for it any more: leases of
// items that were never committed, and the items.
func TestSweep(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			_, a := opened(t, server.Addr, spec)
			ctx, keys, id := context.Background(), storetest.Keys(a, 0, 2000), engine.NewReservation()
			reserve(t, a, id, keys, time.Millisecond)
			commit := func() (engine.Settled, error) {
				return a.Commit(ctx, id, keys[:500], 0, make([]bool, 500))
			}
			sweep := a.(interface{ SweepLeases(context.Context) error }).SweepLeases
			for range 2 {
				if got, err := commit(); err != nil || got.Done != 500 {
					t.Fatalf("%+v, %v", got, err)
				}
				if err := sweep(ctx); err != nil {
					t.Fatal(err)
				}
			}
			c := redistest.Client(t, redis.Options{Addr: server.Addr})
			for _, key := range c.Keys(ctx, "*:reservations").Val() { // what is due in ten minutes is due now
				for _, member := range c.ZRange(ctx, key, 0, -1).Val() {
					c.ZAdd(ctx, key, redis.Z{Score: 1, Member: member})
				}
			}
			if err := sweep(ctx); err != nil {
				t.Fatal(err)
			}
			for _, pattern := range []string{"*:reservations", "*:leases", "*:reserved:*"} {
				if left, err := c.Keys(ctx, pattern).Result(); len(left) > 0 || err != nil {
					t.Errorf("%d are left of %s, %v", len(left), pattern, err)
				}
			}
			if _, err := commit(); !errors.Is(err, engine.ErrNoReservation) {
				t.Errorf("a reservation that was let go of: %v", err)
			}
			if n := newOf(t, a, keys); n != 1500 {
				t.Errorf("%d are new, want the 1500 that were not committed", n)
			}
			if spec.Kind != jobs.Kind {
				return
			}
			there := int64(0)
			for _, key := range c.Keys(ctx, "urifilter:{8:*}0*").Val() {
				there += c.SCard(ctx, key).Val()
			}
			if there != 500 {
				t.Errorf("%d items are in Redis, want 500", there)
			}
		})
	}
}
