package mysql

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// spec is a filter that is kept in this store.
func spec(id int, name string) engine.Spec {
	f := engine.Spec{ID: id, Name: name, Kind: "exact"}
	f.Params = configs.Exact{Store: Name}
	return f
}

// opened opens a store with the filter pages, which it creates if missing.
func opened(t testing.TB, c Config) (*Store, *Set) {
	t.Helper()
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	set, err := store.Create(context.Background(), spec(1, "pages"), storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, set.(*Set)
}

// small limits the number of keys that the store sends in a statement.
func small(s *Store, keys int64) { s.packet.Store(1024 + keys*keyBytes) }

// A batch whose answer is cut off at any point is repeated, and its caller is told of each new
// item, whichever attempt added it.
func TestLostAnswers(t *testing.T) {
	server := mysqltest.Start(t)
	for name, by := range map[string]struct {
		keys         int64 // in a statement
		rounds, step int   // bytes of answers
	}{"statement": {pieceKeys, 30, 37}, "transaction": {10, 110, 10}} {
		t.Run(name, func(t *testing.T) {
			keys, rounds := by.keys, by.rounds
			c := config(server)
			link := testserver.NewCutter(t, c.Addr)
			c.Addr = link.Addr
			store, set := opened(t, c)
			const n = 40
			told := 0 // batches that were answered at once
			storetest.Add(t, set, nil)
			for round := range rounds {
				small(store, keys)
				link.CutOnce(round * by.step)
				// Half of the items are new.
				fresh := make([]bool, n)
				got, err := set.Add(context.Background(), storetest.Keys(set, round*n/2, n), fresh)
				if errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
					// The connection broke before the batch, or the end of its transaction, was sent.
					link.Pass()
					got, err = set.Add(context.Background(), storetest.Keys(set, round*n/2, n), fresh)
				} else if err == nil {
					told++
				}
				want := n / 2
				if round == 0 {
					want = n
				}
				if err != nil || got != want {
					t.Fatalf("round %d: %d new, %v; want %d", round, got, err, want)
				}
				link.Pass()
			}
			if link.Cuts() < rounds/2 || told < 3 {
				t.Errorf("%d connections were cut, %d batches answered at once", link.Cuts(), told)
			}
		})
	}
}

// A Forget is in doubt when its answer is lost, and can be repeated.
func TestLostAnswerOfForget(t *testing.T) {
	c := config(mysqltest.Start(t))
	link := testserver.NewCutter(t, c.Addr)
	c.Addr = link.Addr
	_, set := opened(t, c)
	keys := storetest.Keys(set, 0, 100)
	storetest.Add(t, set, keys)
	for {
		link.CutOnce(0)
		_, err := set.Forget(context.Background(), keys)
		link.Pass()
		if errors.Is(err, engine.ErrInDoubt) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		storetest.Add(t, set, keys) // it was another connection that broke
	}
	if _, err := set.Forget(context.Background(), keys); err != nil {
		t.Fatal(err)
	}
	for i, fresh := range storetest.Add(t, set, keys) {
		if !fresh {
			t.Fatalf("item %d is not forgotten", i)
		}
	}
}

// ledger records what callers were told about numbered items.
type ledger struct {
	mu     sync.Mutex
	new    []int  // how many callers were told that the item is new
	unsure []bool // it was in a batch that broke off
	acked  []bool // it was in a batch that was answered
}

// race has callers of several sets of one filter add random items until done is closed, and
// records what they are told.
func (l *ledger) race(t *testing.T, sets []*Set, callers int, done <-chan struct{}) {
	t.Helper()
	var work sync.WaitGroup
	for caller := range callers {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(caller), 7))
			set := sets[caller%len(sets)]
			for {
				select {
				case <-done:
					return
				default:
				}
				from, n := rnd.IntN(len(l.new)-300), 1+rnd.IntN(300)
				fresh := make([]bool, n)
				_, err := set.Add(context.Background(), storetest.Keys(set, from, n), fresh)
				if err != nil && !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
					t.Error(err)
					return
				}
				l.mu.Lock()
				for i := range fresh {
					switch {
					case err == nil && fresh[i]:
						l.new[from+i]++
						fallthrough
					case err == nil:
						l.acked[from+i] = true
					case errors.Is(err, engine.ErrInDoubt):
						l.unsure[from+i] = true
					}
				}
				l.mu.Unlock()
			}
		})
	}
	work.Wait()
}

// check requires that each item was new at most once, that an answered item was new at least once
// unless a batch with it broke off, and that no answered item is new again.
func (l *ledger) check(t *testing.T, set *Set) {
	t.Helper()
	again := make([]bool, len(l.new))
	if err := set.Has(context.Background(), storetest.Keys(set, 0, len(l.new)), again); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for i := range l.new {
		switch {
		case l.new[i] > 1:
			t.Errorf("item %d was new %d times", i, l.new[i])
		case l.acked[i] && l.new[i] == 0 && !l.unsure[i]:
			t.Errorf("item %d was called seen, and new for nobody", i)
		case l.acked[i] && again[i]:
			t.Errorf("item %d was answered and is new again", i)
		}
		if l.acked[i] {
			answered++
		}
	}
	if answered == 0 {
		t.Error("nothing was answered")
	}
	t.Logf("%d items answered", answered)
}

// Two daemons have 16 callers while the server is killed and restarted, and batches are sent in
// one statement or in several: no item is new twice, and no answered item is new again.
func TestServerKilled(t *testing.T)       { killed(t, 3) }
func TestSystemServerKilled(t *testing.T) { t.Parallel(); killed(t, 25) }

func killed(t *testing.T, rounds int) {
	server := mysqltest.Start(t)
	c := config(server)
	one, a := opened(t, c)
	_, b := opened(t, c)
	if a.Seed() != b.Seed() {
		t.Fatal("the two daemons hash with different seeds")
	}
	const items = 20_000
	l := &ledger{new: make([]int, items), unsure: make([]bool, items), acked: make([]bool, items)}
	done := make(chan struct{})
	var racing sync.WaitGroup
	racing.Go(func() { l.race(t, []*Set{a, b}, 16, done) })
	for round := range rounds {
		small(one, int64(50+rand.IntN(pieceKeys))) // until the next check of the server
		l.await(t, round*100)
		server.Kill()
		server.Run()
	}
	l.await(t, rounds*100)
	close(done)
	racing.Wait()
	l.check(t, b)
}

// await waits until 200+more further items were reported as new, or three quarters of all items.
func (l *ledger) await(t *testing.T, more int) {
	t.Helper()
	count := func() (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range l.new {
			n += l.new[i]
		}
		return n
	}
	want := min(count()+200+more, len(l.new)*3/4)
	testserver.Await(t, "callers are answered", func() bool { return count() >= want })
}
