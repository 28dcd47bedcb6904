package redis

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/footprint"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Daemons that share a Redis give each id to one name, and a name one id.
func TestNumbersOfSeveralDaemons(t *testing.T) {
	server := redistest.Start(t)
	const daemons, names = 4, 20
	ids := make([][names]int, daemons)
	var work sync.WaitGroup
	for d := range daemons {
		store, err := Open(context.Background(), config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		work.Go(func() {
			for i := range names {
				n := (i + d*5) % names // not all in the same order
				id, err := store.TakeID(context.Background(), fmt.Sprint("n", n), 1000)
				if err != nil {
					t.Errorf("daemon %d: %v", d, err)
				}
				ids[d][n] = id
			}
		})
	}
	work.Wait()
	owner := map[int]int{}
	for n, id := range ids[0] {
		if other, taken := owner[id]; taken {
			t.Errorf("names %d and %d have the id %d", n, other, id)
		}
		owner[id] = n
		for d := range ids {
			if ids[d][n] != id {
				t.Errorf("name %d: daemon %d got %d, another %d", n, d, ids[d][n], id)
			}
		}
	}
}

// A drop that breaks off where the id of the filter is forgotten has dropped nothing: a filter that is made again
// would get the same one.
func TestDropThatCannotForgetTheID(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, _ := opened(t, config(server.Addr))
	server.CLI("del", "urifilter:ids")
	server.CLI("set", "urifilter:ids", "of another program")
	if err := store.Drop(t.Context(), uri); err == nil {
		t.Fatal("dropped")
	}
	if held, err := store.Holds(t.Context(), uri); err != nil || !held {
		t.Errorf("held %v, %v", held, err)
	}
}

// The predicted memory is what a real Redis takes.
func TestNoRaceExpectedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items  int
		kind   string
		params configs.Params
		within float64
	}{
		// Each of five stripes has up to a MiB in reserve, depending on its last growth: a standard
		// deviation of 3 %.
		{100_000, "bloom", configs.Bloom{Capacity: 6_000_000, ErrorRate: 1e-4, OnFull: "warn"}, 0.15},
		{500_000, "exact", configs.Exact{}, 0.12},
		{400_000, "bloom", configs.Bloom{Capacity: 500_000, ErrorRate: 1e-6, OnFull: "grow", Layout: "fingerprints"}, 0.12},
		{50_000, "timing", configs.Timing{Expire: time.Hour}, 0.15},
	} {
		t.Run(fmt.Sprintf("%s %d", c.kind, c.items), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store, err := Open(context.Background(), config(server.Addr))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			if _, err := store.Load(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := redisMemory(server)
			spec := engine.Spec{ID: 7, Name: "sized", Kind: c.kind, Params: c.params}
			made, err := store.Create(context.Background(), spec, storetest.Identity())
			if err != nil {
				t.Fatal(err)
			}
			for from := 0; from < c.items; from += 10_000 {
				keys := storetest.Keys(made, from, 10_000)
				if timed, ok := made.(engine.Timed); ok {
					_, err = timed.AddFor(context.Background(), keys, time.Hour, make([]bool, len(keys)))
				} else {
					_, err = made.Add(context.Background(), keys, make([]bool, len(keys)))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			bits := uint64(0)
			if m, ok := made.(engine.BitMap); ok {
				h := m.Header()
				bits = h.Bytes()
			}
			_ = store.Close()
			// Redis counts the buffers of connections that it has not closed yet.
			testserver.Await(t, "the connections are closed", func() bool { return strings.Contains(server.CLI("info", "clients"), "connected_clients:1\r") })
			bytes, ok := footprint.Expected(spec, uint64(c.items), bits)
			// Beside the filter: scripts.
			got, want := float64(redisMemory(server)-before), float64(bytes)
			t.Logf("%d items of bits %d: %.0f bytes, %.1f an item; expected %.0f", c.items, bits, got, got/float64(c.items), want)
			if !ok || math.Abs(got-want) > c.within*want {
				t.Errorf("got %.0f bytes, want %.0f by %.0f %% at most", got, want, 100*c.within)
			}
		})
	}
	if _, ok := footprint.Expected(engine.Spec{Kind: "simhash"}, 1, 0); ok {
		t.Error("a kind that redis does not keep: got a figure")
	}
}
