package redis

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

var jobs = engine.Spec{ID: 8, Name: "jobs", Kind: "exact", Params: configs.Exact{}}

// openedExact opens a store with the filter jobs, made if missing.
func openedExact(t testing.TB, c Config) (*Store, *exact.Set) {
	t.Helper()
	store, set := openedWith(t, c, jobs)
	return store, set.(*exact.Set)
}

// openedWith opens a store with a filter, made if missing.
func openedWith(t testing.TB, c Config, spec engine.Spec) (*Store, engine.Set) {
	t.Helper()
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if found := sets[spec]; found != nil {
		return store, found
	}
	made, err := store.Create(context.Background(), spec, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, made
}

// addTo adds a batch, and returns how many of its items are new.
func addTo(t testing.TB, s engine.Set, from, n int) int {
	t.Helper()
	got, err := s.Add(context.Background(), storetest.Keys(s, from, n), make([]bool, n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func forgetOf(t testing.TB, s engine.Set, from, n int) int {
	t.Helper()
	got, err := s.(engine.Forgetful).Forget(context.Background(), storetest.Keys(s, from, n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// addOnceInSync adds as soon as the store accepts it. Until then only ErrUnavailable is right.
func addOnceInSync(t testing.TB, s engine.Set, from, n int) int {
	t.Helper()
	keys, isNew := storetest.Keys(s, from, n), make([]bool, n)
	// A resync whose daemons all live may take members.ResyncTimeout for each of two steps, and be repeated.
	for deadline := time.Now().Add(15 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, err := s.Add(context.Background(), keys, isNew)
		if err == nil {
			return got
		}
		if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
			t.Fatalf("got %v, want ErrUnavailable or ErrInDoubt", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not resynced: %v", err)
		}
	}
}

// Two daemons, many callers, overlapping items, while sets are split: each item is new for one caller.
// Then all are forgotten, and new once more, for both.
func TestExactlyOnceInSets(t *testing.T)       { exactlyOnceInSets(t, 24_000) } // 1 of 60 sets is split
func TestNoRaceExactlyOnceInSets(t *testing.T) { exactlyOnceInSets(t, 60_000) } // 3 of 4

func exactlyOnceInSets(t *testing.T, items int) {
	t.Parallel()
	for name, addrs := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return redistest.Start(t, "--set-max-intset-entries", "16").Addr },
		"cluster": func(t testing.TB) string {
			servers := redistest.Cluster(t, nil)
			for _, s := range servers {
				s.CLI("config", "set", "set-max-intset-entries", "16")
			}
			return servers[0].Addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
				c := config(addrs(t))
				_, a := open(t, c)
				_, b := open(t, c)
				const callers, batch = 4, 2000
				for range 2 {
					wins := make([]atomic.Int32, items)
					var wg sync.WaitGroup
					for caller := range callers {
						s := []engine.Set{a, b}[caller%2]
						wg.Go(func() {
							for i := caller / 2; i < items/batch; i += 2 {
								from := (i + caller) * batch % items
								isNew := make([]bool, batch)
								if _, err := s.Add(context.Background(), storetest.Keys(s, from, batch), isNew); err != nil {
									t.Error(err)
									return
								}
								for k, is := range isNew {
									if is {
										wins[from+k].Add(1)
									}
								}
							}
						})
					}
					wg.Wait()
					for i := range wins {
						if n := wins[i].Load(); n != 1 {
							t.Fatalf("item %d was new for %d callers", i, n)
						}
					}
					if _, can := b.(engine.Forgetful); !can {
						break
					}
					if n := forgetOf(t, b, 0, items); n != items {
						t.Fatalf("%d of %d are forgotten", n, items)
					}
				}
			})
		})
	}
}

// Daemons with separate mirrors add and forget the same items: additions minus removals are what is
// left, and a forgotten item is new for exactly one of those that ask next.
func TestForgetBetweenDaemons(t *testing.T) {
	t.Parallel()
	const n = 60
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t)
		_, a := open(t, config(server.Addr))
		_, b := open(t, config(server.Addr))
		if _, can := a.(engine.Forgetful); !can {
			return
		}
		for round := range 20 {
			from := round % 3 * n
			addTo(t, a, from, n)
			addTo(t, b, from, n) // in both mirrors
			addTo(t, a, from, n)
			if got := forgetOf(t, []engine.Set{a, b}[round%2], from, n); got != n {
				t.Fatalf("round %d: %d of %d are forgotten", round, got, n)
			}
			wins := make([]atomic.Int32, n)
			var wg sync.WaitGroup
			for _, s := range []engine.Set{a, b, a, b} {
				wg.Go(func() {
					isNew := make([]bool, n)
					if _, err := s.Add(context.Background(), storetest.Keys(s, from, n), isNew); err != nil {
						t.Error(err)
					}
					for i, is := range isNew {
						if is {
							wins[i].Add(1)
						}
					}
				})
			}
			wg.Wait()
			for i := range wins {
				if got := wins[i].Load(); got != 1 {
					t.Fatalf("round %d: item %d is new for %d callers after it was forgotten", round, i, got)
				}
			}
		}
		var added, forgotten atomic.Int64
		var wg sync.WaitGroup
		for caller := range 8 {
			s := []engine.Set{a, b}[caller%2]
			wg.Go(func() {
				for range 30 {
					var got int
					var err error
					count := &added
					if keys := storetest.Keys(s, 10_000, n); caller < 5 {
						got, err = s.Add(context.Background(), keys, make([]bool, n))
					} else {
						got, err = s.(engine.Forgetful).Forget(context.Background(), keys)
						count = &forgotten
					}
					if err != nil {
						t.Error(err)
					}
					count.Add(int64(got))
				}
			})
		}
		wg.Wait()
		for _, s := range []engine.Set{a, b} {
			isNew := make([]bool, n)
			if err := s.Has(context.Background(), storetest.Keys(s, 10_000, n), isNew); err != nil {
				t.Fatal(err)
			}
			if left := int64(n - countOf(isNew)); added.Load()-forgotten.Load() != left {
				t.Errorf("%d were new, %d forgotten, %d are left", added.Load(), forgotten.Load(), left)
			}
		}
	})
}

// A daemon that has missed more than the log holds asks for everything again.
func TestNoRaceForgetMoreThanTheLogHas(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t)
		_, a := open(t, config(server.Addr))
		_, b := open(t, config(server.Addr))
		if _, can := a.(engine.Forgetful); !can {
			return
		}
		const n = 80_000 // 1,250 of each group
		addTo(t, a, 0, n)
		if got := forgetOf(t, b, 0, n-1000); got != n-1000 {
			t.Fatalf("%d are forgotten", got)
		}
		if got := addTo(t, a, 0, n); got != n-1000 {
			t.Errorf("%d are new, want the %d that were forgotten", got, n-1000)
		}
		if got := addTo(t, b, 0, n); got != 0 {
			t.Errorf("%d are new again", got)
		}
	})
}

// Items are counted in Redis, including those of other daemons and of before a start.
func TestNoRaceExactItemsAreCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--set-max-intset-entries", "16")
	storeA, a := openedExact(t, config(server.Addr))
	addTo(t, a, 0, 80_000)
	if n := a.Stats().Items; n != 80_000 {
		t.Errorf("%d items are counted where 80,000 were added", n)
	}
	_, b := openedExact(t, config(server.Addr))
	addTo(t, b, 80_000, 1000)
	forgetOf(t, b, 0, 500)
	_ = storeA.Close()
	testserver.Await(t, "80,500 items are counted", func() bool { return b.Stats().Items == 80_500 })
}

// The memory of an item in Redis, in sets that stay encoded as integers.
func TestNoRaceExactBytesInRedis(t *testing.T) {
	t.Parallel()
	most := map[string]float64{"exact": 14, "fingerprints": 6}
	forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t)
		_, s := open(t, config(server.Addr))
		used := redisMemory(server)
		const n = 500_000
		for from := 0; from < n; from += n / 10 {
			addTo(t, s, from, n/10)
		}
		each := float64(redisMemory(server)-used) / n
		t.Logf("%.1f bytes an item in redis", each)
		if each > most[path.Base(t.Name())] {
			t.Errorf("an item takes %.1f bytes in redis", each)
		}
		for i, key := range strings.Fields(server.CLI("--scan", "--pattern", registry.ItemPrefix(s.(base.Filter).Base().Entry)+"1[0-3]}0[A-Z]")) {
			if i == 5 {
				return
			}
			if got := server.CLI("object", "encoding", key); got != "intset" {
				t.Errorf("a set is encoded as %s", got)
			}
		}
	})
}

// The metrics show what the mirror of an exact filter saves, as they do for a bloom filter.
func TestMetricsOfAnExactMirror(t *testing.T) {
	t.Parallel()
	store, s := openedExact(t, config(redistest.Start(t).Addr))
	for range 3 {
		addTo(t, s, 0, 100)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(store)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"urifilter_mirror_bytes jobs": float64(s.Memory()), "urifilter_mirror_evicted_items_total jobs": 0,
		"urifilter_mirror_items_total jobs hit": 200, "urifilter_mirror_items_total jobs miss": 100,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s: got %v, %v, want %v", name, value, ok, want)
		}
	}
}
