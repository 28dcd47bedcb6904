package leases_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
)

var (
	jobs = engine.Spec{ID: 8, Name: "jobs", Kind: "exact", Params: configs.Exact{}}
	news = engine.Spec{ID: 9, Name: "news", Kind: "timing", Params: configs.Timing{Expire: 24 * time.Hour}}
)

// opened opens a daemon's store, and makes or finds a filter.
func opened(t *testing.T, addr string, spec engine.Spec) (*redisstore.Store, engine.Reserving) {
	t.Helper()
	store, err := redisstore.Open(context.Background(), redisstore.Config{
		Options:     redisstore.Options{Addrs: []string{addr}, Timeout: time.Minute},
		Log:         slog.New(slog.DiscardHandler),
		MirrorBytes: 64 << 20,
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
		"cluster":    func(t *testing.T) string { return redistest.Cluster(t)[0].Addr },
	} {
		for _, spec := range []engine.Spec{jobs, news} {
			t.Run(where+"/"+spec.Kind, func(t *testing.T) {
				t.Parallel()
				test(t, start(t), spec)
			})
		}
	}
}

// racer is one of many callers.
type racer struct {
	set   engine.Reserving
	keys  []bloom.Hash
	rnd   *rand.Rand
	facts *storetest.Holdings
}

const lease = time.Second

// pick returns n items that follow each other.
func (r *racer) pick(n int) (items []int, keys []bloom.Hash) {
	at := r.rnd.IntN(len(r.keys) - n)
	for i := range n {
		items = append(items, at+i)
	}
	return items, r.keys[at : at+n]
}

func choose(items []int, which []bool) (some []int) {
	for i, is := range which {
		if is {
			some = append(some, items[i])
		}
	}
	return some
}

// reserve takes items, and commits them, gives them back, or leaves them to others.
func (r *racer) reserve(ctx context.Context) error {
	items, keys := r.pick(40)
	id, fresh, asked := engine.NewReservation(), make([]bool, len(keys)), time.Now()
	if _, err := r.set.Reserve(ctx, id, keys, lease, fresh); err != nil {
		return err
	}
	mine := choose(items, fresh)
	r.facts.Given(mine, id.String(), asked, lease)
	if len(mine) == 0 {
		return nil
	}
	switch r.rnd.IntN(4) {
	case 0:
		return nil // a crawler that died
	case 1:
		r.facts.Settling(mine, id.String())
		_, err := r.set.Release(ctx, id, nil, nil)
		return err
	case 2:
		select { // until the lease has ended, and others may have the items
		case <-time.After(lease):
		case <-ctx.Done():
		}
	}
	own := make([]bloom.Hash, len(mine))
	for i, item := range mine {
		own[i] = r.keys[item]
	}
	lost := make([]bool, len(own))
	asked = time.Now()
	r.facts.Settling(mine, id.String())
	if _, err := r.set.Commit(ctx, id, own, 0, lost); err != nil {
		return err
	}
	for i := range lost {
		lost[i] = !lost[i]
	}
	r.facts.Seen(choose(mine, lost), id.String(), asked)
	return nil
}

func (r *racer) add(ctx context.Context) error {
	items, keys := r.pick(3)
	isNew, asked := make([]bool, len(keys)), time.Now()
	if _, err := r.set.Add(ctx, keys, isNew); err != nil {
		return err
	}
	r.facts.Seen(choose(items, isNew), "", asked)
	return nil
}

// Callers of two daemons reserve, commit, release and add the same items, and forget to settle:
// no item is two callers', none is new after it was seen, and none is stuck.
func TestReservingOfTwoDaemons(t *testing.T) {
	forEach(t, func(t *testing.T, addr string, spec engine.Spec) {
		const callers, rounds, n = 16, 60, 4000
		_, a := opened(t, addr, spec)
		_, b := opened(t, addr, spec)
		var facts storetest.Holdings
		keys := storetest.Keys(a, 0, n)
		var wg sync.WaitGroup
		for caller := range callers {
			r := &racer{[]engine.Reserving{a, b}[caller%2], keys, rand.New(rand.NewPCG(11, uint64(caller))), &facts}
			wg.Go(func() {
				for round := range rounds {
					do := r.reserve
					if round%4 == 3 {
						do = r.add
					}
					if err := do(context.Background()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		given, _ := facts.Count()
		awaitFree(t, b, keys, &facts)
		if faults := facts.Check(); len(faults) > 0 {
			t.Errorf("%d items: %.2000v", len(faults), faults)
		}
		if given < n/2 {
			t.Errorf("only %d items were ever given to anybody", given)
		}
	})
}

// awaitFree waits until all items that nobody has made seen can be reserved, and are.
func awaitFree(t *testing.T, set engine.Reserving, keys []bloom.Hash, facts *storetest.Holdings) {
	t.Helper()
	left := 0
	for i := range keys {
		if !facts.IsSeen(i) {
			left++
		}
	}
	id := engine.NewReservation()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		fresh, asked := make([]bool, len(keys)), time.Now()
		got, err := set.Reserve(context.Background(), id, keys, time.Hour, fresh)
		if err != nil {
			t.Fatal(err)
		}
		if got.Fresh == left { // what it has taken is taken once more
			var items []int
			for i, is := range fresh {
				if is {
					items = append(items, i)
				}
			}
			facts.Given(items, id.String(), asked, time.Hour)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, of %d items that nobody has made seen", got, left)
		}
	}
}
