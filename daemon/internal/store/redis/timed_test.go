package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/timed"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

var news = engine.Spec{ID: 7, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}

// openedTimed opens a store with the filter news, made if missing.
func openedTimed(t testing.TB, c Config) (*Store, *timed.Set) {
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
	if found := sets[news]; found != nil {
		return store, found.(*timed.Set)
	}
	made, err := store.Create(context.Background(), news, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, made.(*timed.Set)
}

func addTimed(t testing.TB, s *timed.Set, from, n int, expire time.Duration) int {
	t.Helper()
	got, err := s.AddFor(context.Background(), storetest.Keys(s, from, n), expire, make([]bool, n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// addWhenResynced adds as soon as the store accepts it. Until then only ErrUnavailable is
// right.
func addWhenResynced(t testing.TB, s *timed.Set, from, n int, expire time.Duration) int {
	t.Helper()
	keys, isNew := storetest.Keys(s, from, n), make([]bool, n)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, err := s.AddFor(context.Background(), keys, expire, isNew)
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

// Redis loses its data, or a part: items that either daemon accepted stay duplicates for both,
// and for a daemon that starts then, and expire when they should.
func TestTimedResync(t *testing.T) {
	t.Parallel()
	const each = 1000
	for name, lose := range map[string]func(*redistest.Server, *timed.Set){
		"restarted empty": func(r *redistest.Server, _ *timed.Set) { r.Kill(); r.Run() },
		"away for a while": func(r *redistest.Server, _ *timed.Set) {
			r.Kill()
			time.Sleep(2500 * time.Millisecond)
			r.Run()
		},
		"flushed":                  func(r *redistest.Server, _ *timed.Set) { r.CLI("flushall") },
		"flushed, then restarted":  func(r *redistest.Server, _ *timed.Set) { r.CLI("flushall"); r.Kill(); r.Run() },
		"its registry is gone too": func(r *redistest.Server, s *timed.Set) { r.CLI("del", registry.Key, s.Witness(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storeA, a := openedTimed(t, config(server.Addr))
			storeB, b := openedTimed(t, config(server.Addr))
			waitReady(t, storeA, storeB)
			meet(t, storeA, storeB)
			addTimed(t, a, 0, each, time.Hour)
			addTimed(t, b, each, each, time.Hour)
			const brief = 20 * time.Second
			before := time.Now()
			addTimed(t, a, 10_000, 100, brief)
			lose(server, a)
			for _, c := range []struct {
				s    *timed.Set
				from int
			}{{a, each}, {b, 0}, {a, 0}, {b, each}} {
				if n := addWhenResynced(t, c.s, c.from, each, time.Hour); n != 0 {
					t.Fatalf("%d items are new before they expire", n)
				}
			}
			n := addWhenResynced(t, b, 10_000, 50, time.Hour)
			if took := time.Since(before); n > 0 && took < brief {
				t.Errorf("%d items with a short time are new %v after they were accepted", n, took)
			}
			waitReady(t, storeA, storeB)
			_, c := openedTimed(t, config(server.Addr))
			if n := addTimed(t, c, 0, 2*each, time.Hour); n != 0 {
				t.Errorf("%d items are new for a third daemon before they expire", n)
			}
			if n := addTimed(t, c, 20_000, 1000, time.Hour); n != 1000 {
				t.Errorf("%d of 1000 new items are new", n)
			}
			expired := func() int {
				isNew := make([]bool, 50)
				if err := c.Has(context.Background(), storetest.Keys(c, 10_050, 50), isNew); err != nil {
					t.Fatal(err)
				}
				return countOf(isNew)
			}
			for deadline := before.Add(brief + time.Minute); expired() < 50; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d of 50 items that were put back are duplicates a minute after they expired", 50-expired())
				}
			}
		})
	}
}

// One node of a cluster is flushed: the answers of that node do not count.
func TestTimedResyncOfAClusterNode(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, nil)
	storeA, a := openedTimed(t, config(servers[0].Addr))
	storeB, b := openedTimed(t, config(servers[1].Addr))
	waitReady(t, storeA, storeB)
	meet(t, storeA, storeB)
	addTimed(t, a, 0, 5000, time.Hour)
	addTimed(t, b, 5000, 5000, time.Hour)
	for _, s := range servers {
		if n, _ := strconv.Atoi(s.CLI("dbsize")); n < 1000 {
			t.Errorf("a node has %d keys of 10,000: they do not spread", n)
		}
	}
	servers[2].CLI("flushall")
	for _, s := range []*timed.Set{b, a, b} {
		if n := addWhenResynced(t, s, 0, 10_000, time.Hour); n != 0 {
			t.Fatalf("%d items are new before they expire", n)
		}
	}
}

// Two daemons, many callers, overlapping items: each item is new for one caller, and for one
// again when it has expired.
func TestTimedExactlyOnceForTwoDaemons(t *testing.T) {
	const items, batch = 2000, 100
	for name, addrs := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return redistest.Start(t).Addr },
		"cluster":    func(t testing.TB) string { return redistest.Cluster(t, nil)[0].Addr },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(addrs(t))
			_, a := openedTimed(t, c)
			_, b := openedTimed(t, c)
			if a.Seed() != b.Seed() || a.Entry != b.Entry {
				t.Fatal("the two daemons have different filters")
			}
			const callers, expire = 8, 3 * time.Second
			for range 2 {
				wins := make([]atomic.Int32, items)
				start := time.Now()
				var wg sync.WaitGroup
				for caller := range callers {
					s := []*timed.Set{a, b}[caller%2]
					wg.Go(func() {
						for i := range items / batch {
							from := (i + caller) * batch % items
							isNew := make([]bool, batch)
							if _, err := s.AddFor(context.Background(), storetest.Keys(s, from, batch), expire, isNew); err != nil {
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
				took := time.Since(start)
				for i := range wins { // on a busy machine a round may take longer than items live
					if n := wins[i].Load(); n != 1 && took < expire || n < 1 {
						t.Fatalf("item %d was new for %d callers in %v", i, n, took)
					}
				}
				keys, isNew := storetest.Keys(b, 0, items), make([]bool, items)
				testserver.Await(t, "all items have expired", func() bool {
					if err := b.Has(context.Background(), keys, isNew); err != nil {
						t.Fatal(err)
					}
					return countOf(isNew) == items
				})
			}
		})
	}
}

// A dropped filter's keys are removed from Redis. A new filter of its name and id does not see
// them, even before that, and loses none of its own.
func TestTimedDropCleansUp(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t testing.TB) []*redistest.Server{
		"standalone": func(t testing.TB) []*redistest.Server { return []*redistest.Server{redistest.Start(t)} },
		"cluster":    func(t testing.TB) []*redistest.Server { return redistest.Cluster(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t)
			store, s := openedTimed(t, config(servers[0].Addr))
			_, bits := opened(t, config(servers[0].Addr))
			addTimed(t, s, 0, 3000, time.Hour)
			add(t, bits, 0, 1000)
			old := registry.ItemPrefix(s.Entry)
			if err := store.Drop(context.Background(), news); err != nil {
				t.Fatal(err)
			}
			again, err := store.Create(context.Background(), news, storetest.Identity())
			if err != nil {
				t.Fatal(err)
			}
			s = again.(*timed.Set)
			if n := addTimed(t, s, 0, 3000, time.Hour); n != 3000 {
				t.Errorf("re-created: %d of 3000 items are new", n)
			}
			for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
				left := 0
				for _, server := range servers {
					for key := range strings.Lines(server.CLI("--scan")) {
						if strings.HasPrefix(strings.TrimPrefix(key, `"`), old) {
							left++
						}
					}
				}
				if left == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d keys of the dropped filter are left", left)
				}
			}
			waitReady(t, store)
			if n := addTimed(t, s, 0, 3000, time.Hour); n != 0 {
				t.Errorf("re-created: %d items are new before they expire", n)
			}
			if n := add(t, bits, 0, 1000); n != 0 {
				t.Errorf("the bloom filter beside it has lost %d items", n)
			}
		})
	}
}

// Expired items are removed from the mirror, and by Redis itself.
func TestTimedMirrorForgets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, s := openedTimed(t, config(server.Addr))
	empty, _ := strconv.Atoi(server.CLI("dbsize"))
	used := redisMemory(server)
	const n = 50_000
	addTimed(t, s, 0, n, 2*time.Second)
	st := s.Stats()
	t.Logf("%d items: %.1f bytes each here, %.0f in redis", st.Items, float64(st.Bytes)/n, float64(redisMemory(server)-used)/n)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		st = s.Stats()
		left, _ := strconv.Atoi(server.CLI("dbsize"))
		if st.Items == 0 && st.Bytes == 0 && left <= empty {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %d keys in redis", st, left-empty)
		}
	}
}

func redisMemory(s *redistest.Server) int {
	_, after, _ := strings.Cut(s.CLI("info", "memory"), "used_memory:")
	text, _, _ := strings.Cut(after, "\r")
	n, _ := strconv.Atoi(text)
	return n
}
