package leases_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

var (
	jobs = engine.Spec{ID: 8, Name: "jobs", Kind: "exact", Params: configs.Exact{}}
	news = engine.Spec{ID: 9, Name: "news", Kind: "timing", Params: configs.Timing{Expire: 24 * time.Hour}}
)

// opened opens a daemon's store, and makes or finds a filter.
func opened(t *testing.T, addr string, spec engine.Spec) (*redisstore.Store, engine.Reserving) {
	t.Helper()
	return openedBy(t, redisstore.Options{Addrs: []string{addr}, Timeout: time.Minute}, spec)
}

func openedBy(t *testing.T, o redisstore.Options, spec engine.Spec) (*redisstore.Store, engine.Reserving) {
	t.Helper()
	store, err := redisstore.Open(context.Background(), redisstore.Config{
		Options: o,
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if found := sets[spec]; found != nil {
		return store, found.(engine.Reserving)
	}
	made, err := store.Create(context.Background(), spec, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, made.(engine.Reserving)
}

// forEach runs a test on a server and on a cluster, with a filter of each kind.
func forEach(t *testing.T, test func(t *testing.T, addr string, spec engine.Spec)) {
	for where, start := range map[string]func(*testing.T) string{
		"standalone": func(t *testing.T) string { return redistest.Start(t).Addr },
		"cluster":    func(t *testing.T) string { return redistest.Cluster(t, nil)[0].Addr },
	} {
		for _, spec := range []engine.Spec{jobs, news} {
			t.Run(where+"/"+spec.Kind, func(t *testing.T) {
				t.Parallel()
				test(t, start(t), spec)
			})
		}
	}
}

// clock returns the clock of a server, in milliseconds as the scripts read it.
func clock(t *testing.T, addr string) *leasetest.Clock {
	c := redistest.Client(t, redis.Options{Addr: addr})
	return leasetest.NewClock(func() (time.Time, error) {
		at, err := c.Time(context.Background()).Result()
		return at.Truncate(time.Millisecond), err
	})
}

// race has 16 callers reserve, commit, release and add in sets until disturb returns. disturb gets a
// function that waits until so many more calls have been answered.
func race(t *testing.T, l *leasetest.Ledger, sets []engine.Reserving, disturb func(answered func(n int))) {
	t.Helper()
	done := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			l.Run(func() leasetest.Caller { return leasetest.Set{Reserving: sets[i%len(sets)]} }, done)
		})
	}
	disturb(func(n int) {
		want := l.Answers() + n
		for deadline := time.Now().Add(5 * time.Minute); l.Answers() < want && l.Faults() == nil; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("nobody is answered")
				return
			}
		}
	})
	close(done)
	callers.Wait()
}

// Callers of two daemons reserve, commit, release and add the same items, and forget to settle:
// no item belongs to two callers, none is new after it was seen, and none is held longer than its lease.
func TestReservingOfTwoDaemons(t *testing.T) {
	forEach(t, func(t *testing.T, addr string, spec engine.Spec) {
		_, a := opened(t, addr, spec)
		_, b := opened(t, addr, spec)
		l := leasetest.New(3000, clock(t, addr))
		race(t, l, []engine.Reserving{a, b}, func(answered func(int)) { answered(500) })
		l.Check(t, leasetest.Set{Reserving: b})
	})
}
