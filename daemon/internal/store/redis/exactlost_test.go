package redis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// witness returns the key of a witness of a filter whose items are members of sets.
func witness(s engine.Set, g int) string {
	return forgotten.Tagged(registry.ItemPrefix(s.(base.Filter).Base().Entry), g)
}

// Redis loses its data, or a part: items that either daemon accepted stay duplicates for both,
// and for a daemon that starts then, and forgotten items stay new.
func TestExactResync(t *testing.T) {
	t.Parallel()
	const each = 1000
	for name, lose := range map[string]func(*redistest.Server, engine.Set){
		"restarted empty":          func(r *redistest.Server, _ engine.Set) { r.Kill(); r.Run() },
		"flushed":                  func(r *redistest.Server, _ engine.Set) { r.CLI("flushall") },
		"flushed, then restarted":  func(r *redistest.Server, _ engine.Set) { r.CLI("flushall"); r.Kill(); r.Run() },
		"its registry is gone too": func(r *redistest.Server, s engine.Set) { r.CLI("del", registry.Key, witness(s, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
				server := redistest.Start(t)
				storeA, a := open(t, config(server.Addr))
				storeB, b := open(t, config(server.Addr))
				waitReady(t, storeA, storeB)
				meet(t, storeA, storeB)
				gone := each / 10
				if _, can := b.(engine.Forgetful); !can {
					gone = 0
				}
				addTo(t, a, 0, each)
				addTo(t, b, each, each)
				if gone == 0 {
				} else if n := forgetOf(t, b, each/5, gone); n != gone { // which a accepted, without learning of this
					t.Fatalf("%d of %d are forgotten", n, gone)
				}
				lose(server, a)
				for _, c := range []struct {
					s          engine.Set
					from, want int
				}{{a, each, 0}, {b, 0, gone}, {a, 0, 0}, {b, each, 0}} {
					if n := addOnceInSync(t, c.s, c.from, each); n != c.want {
						t.Fatalf("%d items are new, want %d", n, c.want)
					}
				}
				waitReady(t, storeA, storeB)
				_, c := open(t, config(server.Addr))
				if n := addTo(t, c, 0, 2*each); n != 0 {
					t.Errorf("%d items are new for a third daemon", n)
				}
				if n := addTo(t, c, 20_000, 1000); n != 1000 {
					t.Errorf("%d of 1000 new items are new", n)
				}
			})
		})
	}
}

// Redis comes back with what it had before the latest items were added and forgotten.
func TestNoRaceExactResyncFromAnOlderFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--set-max-intset-entries", "16")
	storeA, a := openedExact(t, config(server.Addr))
	storeB, b := openedExact(t, config(server.Addr))
	meet(t, storeA, storeB)
	addTo(t, a, 0, 20_000)
	old := filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(server.Dir)); err != nil {
		t.Fatal(err)
	}
	addTo(t, a, 20_000, 60_000) // sets are split meanwhile
	addTo(t, b, 300_000, 2000)
	forgetOf(t, b, 0, 1000)
	forgetOf(t, a, 300_000, 1000)
	server.Kill()
	if err := os.RemoveAll(filepath.Join(server.Dir, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(server.Dir, "appendonlydir"), os.DirFS(filepath.Join(old, "appendonlydir"))); err != nil {
		t.Fatal(err)
	}
	server.Run()
	waitReady(t, storeA, storeB)
	_, c := openedExact(t, config(server.Addr))
	for name, s := range map[string]*exact.Set{"a": a, "b": b, "a third": c} {
		for _, part := range []struct{ from, n, want int }{{0, 1000, 1000}, {1000, 79_000, 0}, {300_000, 1000, 1000}, {301_000, 1000, 0}} {
			isNew := make([]bool, part.n)
			if err := s.Has(context.Background(), storetest.Keys(s, part.from, part.n), isNew); err != nil {
				t.Fatal(err)
			}
			if got := countOf(isNew); got != part.want {
				t.Errorf("%s: from %d on %d of %d are new, want %d", name, part.from, got, part.n, part.want)
			}
		}
	}
}

// One node of a cluster is flushed: the answers of that node do not count.
func TestExactResyncOfAClusterNode(t *testing.T) {
	t.Parallel()
	forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		servers := redistest.Cluster(t, nil)
		storeA, a := open(t, config(servers[0].Addr))
		storeB, b := open(t, config(servers[1].Addr))
		waitReady(t, storeA, storeB)
		meet(t, storeA, storeB)
		addTo(t, a, 0, 5000)
		addTo(t, b, 5000, 5000)
		for _, s := range servers {
			if n, _ := strconv.Atoi(s.CLI("dbsize")); n < 500 {
				t.Errorf("a node has %d keys: they do not spread", n)
			}
		}
		servers[2].CLI("flushall")
		for _, s := range []engine.Set{b, a, b} {
			if n := addOnceInSync(t, s, 0, 10_000); n != 0 {
				t.Fatalf("%d items are new again", n)
			}
		}
	})
}

// The server is killed repeatedly under callers of two daemons, and comes back with its file: each
// item is new for one caller, or for none if the outcome was reported as unknown.
func TestNoRaceExactServerKilledUnderCallers(t *testing.T) {
	t.Parallel()
	forEachInSets(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no", "--set-max-intset-entries", "16")
		storeA, a := open(t, config(server.Addr))
		storeB, b := open(t, config(server.Addr))
		waitReady(t, storeA, storeB)
		meet(t, storeA, storeB)
		const callers, batch, items = 8, 400, 40_000
		var wins, doubt [items]atomic.Int32
		stop := make(chan struct{})
		var answered atomic.Int64
		var wg sync.WaitGroup
		for caller := range callers {
			s := []engine.Set{a, b}[caller%2]
			wg.Go(func() {
				for i := caller * 13; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					from := i * batch % items
					isNew := make([]bool, batch)
					_, err := s.Add(context.Background(), storetest.Keys(s, from, batch), isNew)
					switch {
					case err == nil:
						answered.Add(1)
					case errors.Is(err, engine.ErrInDoubt):
						for k := range batch {
							doubt[from+k].Add(1)
						}
						time.Sleep(refused)
						continue
					case errors.Is(err, engine.ErrUnavailable):
						time.Sleep(refused)
						continue
					default:
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
		for range 4 {
			seen := answered.Load()
			for deadline := time.Now().Add(3 * time.Minute); answered.Load() < seen+20; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("no batch is answered")
					break
				}
			}
			server.Kill()
			server.Run()
		}
		waitReady(t, storeA, storeB)
		close(stop)
		wg.Wait()
		for _, s := range []engine.Set{b, a} {
			for from := 0; from < items; from += batch {
				isNew, _ := addUntilAnswered(t, s, from, batch)
				for k, is := range isNew {
					if is {
						wins[from+k].Add(1)
					}
				}
			}
		}
		for i := range wins {
			if n := wins[i].Load(); n > 1 || n == 0 && doubt[i].Load() == 0 {
				t.Fatalf("item %d was new for %d callers, %d times in doubt", i, n, doubt[i].Load())
			}
		}
	})
}
