package bitmap_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// growing adds a layer every few batches. As layers are added after one, two or three thousand items, the
// first three take 6000 items however their bits fall, and the fourth many more.
var growing = engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 700, ErrorRate: 1e-6, OnFull: "grow"}}

// connected is a daemon's store that has loaded nothing.
func connected(t *testing.T, addr string, prepare ...func(*redisstore.Config)) *redisstore.Store {
	t.Helper()
	c := redisstore.Config{
		Options: servers.Options{Addrs: []string{addr}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: t.TempDir(),
	}
	for _, f := range prepare {
		f(&c)
	}
	store, err := redisstore.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// opened is a daemon's store with the filter growing, made if missing.
func opened(t *testing.T, addr string, prepare ...func(*redisstore.Config)) (*redisstore.Store, engine.Layered) {
	t.Helper()
	store := connected(t, addr, prepare...)
	return store, loaded(t, store)
}

// smallMirror is less than any layer.
func smallMirror(c *redisstore.Config) { c.MirrorBytes = 1 << 10 }

// smallerMirror holds the first two or three layers whole.
func smallerMirror(c *redisstore.Config) { c.MirrorBytes = 22 << 10 }

// loaded returns the filter of a store, made if missing.
func loaded(t *testing.T, store *redisstore.Store) engine.Layered {
	t.Helper()
	ctx := context.Background()
	sets, err := store.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	set := sets[growing]
	if set == nil {
		if set, err = store.Create(ctx, growing, storetest.Identity()); err != nil {
			t.Fatal(err)
		}
	}
	return set.(engine.Layered)
}

// add adds items once Redis is in sync.
func add(t *testing.T, s engine.Set, from, n int) []bool {
	t.Helper()
	keys, fresh := storetest.Keys(s, from, n), make([]bool, n)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := s.Add(context.Background(), keys, fresh)
		if err == nil {
			return fresh
		}
		if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func count(fresh []bool) (n int) {
	for _, is := range fresh {
		if is {
			n++
		}
	}
	return n
}

// Callers of three daemons, with mirrors of all sizes, add the same items while layers are added: each is new
// once. A daemon that does not know of this finds nothing new, and learns of the layers by asking.
func TestGrowthIsExactlyOnce(t *testing.T) {
	for name, addr := range map[string]func() string{
		"standalone": func() string { return redistest.Start(t).Addr },
		"cluster":    func() string { return redistest.Cluster(t, nil)[0].Addr },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := addr()
			var sets []engine.Layered
			for _, mirror := range []func(*redisstore.Config){func(*redisstore.Config) {}, smallMirror, smallerMirror} {
				_, set := opened(t, at, mirror)
				sets = append(sets, set)
			}
			_, halted := opened(t, at)
			const items, batch, callers = 8000, 200, 6
			wins := make([]int, items)
			var mu sync.Mutex
			var wait sync.WaitGroup
			for caller := range callers {
				wait.Go(func() {
					s := sets[caller%len(sets)]
					for i := range items / batch {
						from := (i + caller/2) * batch % items
						fresh := make([]bool, batch)
						if _, err := s.Add(context.Background(), storetest.Keys(s, from, batch), fresh); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for k, is := range fresh {
							if is {
								wins[from+k]++
							}
						}
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			never := 0 // false positives; one is expected in some hundred runs
			for i, won := range wins {
				if won > 1 {
					t.Fatalf("item %d was new %d times", i, won)
				}
				if won == 0 {
					never++
				}
			}
			if never > 2 {
				t.Errorf("%d of %d items were new for nobody", never, items)
			}
			if n := len(sets[0].Layers()); n < 2 {
				t.Errorf("%d layers: hardly anything grew", n)
			}
			known := len(halted.Layers()) // one, unless it had to resync on a busy machine
			if n := count(add(t, halted, 0, items)); n != 0 {
				t.Errorf("%d of %d items are new for a daemon that had heard of %d layers", n, items, known)
			}
			_, late := opened(t, at, smallMirror)
			fresh := make([]bool, items)
			if err := late.Has(context.Background(), storetest.Keys(late, 0, items), fresh); err != nil || count(fresh) != 0 {
				t.Errorf("%d items are new for a daemon that starts: %v", count(fresh), err)
			}
			if n := count(add(t, late, items, 1000)); n < 999 {
				t.Errorf("%d of 1000 new items are new", n)
			}
		})
	}
}

// However a number of new items comes, in calls of any sizes that have asked for room together, the layers that
// are mirrored whole take no more afterwards than the filter said before. What it says of layers that are not has the
// bound of the mirrors.
func TestMemoryForHoldsForCallsAtOnce(t *testing.T) {
	for name, bound := range map[string]uint64{"whole": 0, "in part": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, set := opened(t, redistest.Start(t).Addr, func(c *redisstore.Config) { c.MirrorBytes = bound })
			random := rand.New(rand.NewPCG(1, 1))
			for items := 0; items < 150_000; {
				calls, all := make([]int, 1+random.IntN(4)), 0
				for i := range calls {
					calls[i] = 1 + random.IntN(1+items>>random.IntN(6))
					all += calls[i]
				}
				promised := set.MemoryFor(engine.More{Items: all})
				for _, n := range calls {
					add(t, set, items, n)
					items += n
				}
				now := set.(base.Mirroring).Mirror()
				if !now.Partial && now.Bytes > promised || bound > 0 && promised > bound {
					t.Errorf("%d bytes with %d items, after calls of %d, for which it promised %d", now.Bytes, items, calls, promised)
				}
			}
			if n := len(set.Layers()); n < 3 {
				t.Errorf("%d layers: hardly anything grew", n)
			}
		})
	}
}

// Redis comes back empty, or without a part: the live daemons put back all layers, closed ones
// as closed, and one that did not know of them follows.
func TestGrowthIsResynced(t *testing.T) {
	for name, lose := range map[string]func(*redistest.Server, []string){
		"restarted empty":          func(s *redistest.Server, _ []string) { s.Kill(); s.Run() },
		"flushed":                  func(s *redistest.Server, _ []string) { s.CLI("flushall") },
		"a closed stripe is gone":  func(s *redistest.Server, keys []string) { s.CLI("del", keys[0]) },
		"the last layer is gone":   func(s *redistest.Server, keys []string) { s.CLI("del", keys[len(keys)-1]) },
		"a closed stripe is empty": func(s *redistest.Server, keys []string) { s.CLI("set", keys[0], "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			_, a := opened(t, server.Addr)
			_, b := opened(t, server.Addr)
			const items = 8000
			add(t, a, 0, items)
			layers := len(a.Layers())
			if layers < 2 {
				t.Fatalf("%d layers: hardly anything grew", layers)
			}
			keys := a.(interface{ StripeKeys() []string }).StripeKeys()
			lose(server, keys)
			for _, s := range []engine.Set{a, b, a} { // whoever asks finds out what is lost
				if n := count(add(t, s, 0, items)); n != 0 {
					t.Errorf("%d of %d items are new again", n, items)
				}
			}
			if got := len(b.Layers()); got < layers {
				t.Errorf("the other daemon has %d layers, want %d", got, layers)
			}
			if n := count(add(t, b, items, 1000)); n < 999 {
				t.Errorf("%d of 1000 new items are new", n)
			}
			for i, key := range keys[:len(keys)-1] {
				if head := server.CLI("getrange", key, "0", "3"); head != "URIs" {
					t.Errorf("stripe %d of %d begins with %q, want that of a closed one", i, len(keys), head)
				}
			}
		})
	}
}

// Daemons put back what they know in any order. One that knows of only one layer, and finds it
// gone, learns of its items when the others have put them back.
func TestGrowthIsReloaded(t *testing.T) {
	for name, order := range map[string][]int{"the other one first": {1, 0}, "this one first": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			server := redistest.Start(t)
			_, a := opened(t, server.Addr)
			_, b := opened(t, server.Addr)
			const items = 8000
			add(t, a, 0, items)
			keys := a.(interface{ StripeKeys() []string }).StripeKeys()
			server.CLI("set", keys[0], "")
			type resyncing interface {
				Resync(context.Context) (bool, error)
				Reload(context.Context) error
			}
			daemons := []resyncing{b.(resyncing), a.(resyncing)}
			for i, n := range order {
				if gone, err := daemons[n].Resync(ctx); err != nil || gone != (i == 0) {
					t.Fatalf("resync: gone %v, %v", gone, err)
				}
			}
			for _, d := range daemons {
				if err := d.Reload(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []engine.Set{b, a} {
				if n := count(add(t, s, 0, items)); n != 0 {
					t.Errorf("%d of %d items are new again", n, items)
				}
			}
		})
	}
}

// When a restore into a closed layer is done, the other daemons know its items.
func TestMergeIntoClosedLayer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	_, a := opened(t, server.Addr)
	_, b := opened(t, server.Addr)
	const items, restored = 8000, 100
	add(t, a, 0, items)
	if n := count(add(t, b, 0, items)); n != 0 {
		t.Fatalf("%d of %d items are new again", n, items)
	}
	archived, err := bloom.NewLayer(a.Header(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer archived.Close()
	archived.Add(storetest.Keys(a, items, restored), make([]bool, restored))
	data := archived.Stripe(0, make([]byte, archived.Header().LargestStripe()))
	if err := b.MergeStripe(ctx, 0, data); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range []engine.Set{a, b} {
		if n := count(add(t, s, items, restored)); n != 0 {
			t.Errorf("%d of %d items that were restored are new", n, restored)
		}
	}
}

// A dropped filter leaves no layer behind, whichever daemon made it.
func TestLayersAreDropped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storeA, a := opened(t, server.Addr)
	storeB, _ := opened(t, server.Addr) // knows of one layer
	add(t, a, 0, 8000)
	if err := storeB.Drop(context.Background(), growing); err != nil {
		t.Fatal(err)
	}
	keys := a.(interface{ StripeKeys() []string }).StripeKeys()
	left := func() (there []string) {
		for _, key := range keys {
			if server.CLI("exists", key) != "0" {
				there = append(there, key)
			}
		}
		return there
	}
	for deadline := time.Now().Add(5 * time.Minute); len(left()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", left())
		}
	}
	made, err := storeA.Create(context.Background(), growing, storetest.Identity())
	for deadline := time.Now().Add(5 * time.Minute); err != nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		made, err = storeA.Create(context.Background(), growing, storetest.Identity())
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := count(add(t, made, 0, 1000)); n != 1000 || slices.Contains(keys, "") {
		t.Errorf("made again: %d of 1000 items are new", n)
	}
}
