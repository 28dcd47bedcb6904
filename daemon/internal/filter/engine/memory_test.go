package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// Filters of all kinds have one limit together, however many callers fill them at once: then new
// items are refused and seen ones answered, in each of them; and what one gives back others get.
func TestNoRaceMemoryOfAllFilters(t *testing.T) {
	const limit = 48 << 20
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var told atomic.Uint64
	e, err := engine.Open(t.Context(), store, engine.Settings{
		Filters: []engine.Spec{
			{ID: 1, Name: "bloom", Kind: "bloom", Params: configs.Bloom{Capacity: 100_000, ErrorRate: 1e-4, OnFull: "grow"}},
			{ID: 2, Name: "fixed", Kind: "bloom", Params: configs.Bloom{Capacity: 1_000_000, ErrorRate: 1e-4, OnFull: "warn"}},
			{ID: 3, Name: "timing", Kind: "timing", Params: configs.Timing{Expire: time.Hour}},
			{ID: 4, Name: "exact", Kind: "exact", Params: configs.Exact{}},
			{ID: 5, Name: "unused", Kind: "bloom", Params: configs.Bloom{Capacity: 100_000_000, ErrorRate: 1e-4, OnFull: "warn"}},
		},
		MemoryBytes: limit, Memory: told.Store, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := func() (bytes uint64) {
		for _, f := range e.Filters() {
			bytes += f.Set.(engine.Weighed).MemoryFor(engine.More{})
		}
		return bytes
	}
	batch := func(n int) []uint64 {
		items := make([]uint64, 10_000)
		for i := range items {
			items[i] = uint64(n*len(items) + i + 1)
		}
		return items
	}
	fill := func(name string) (taken int) {
		f, err := e.Lookup(name)
		if err != nil {
			t.Error(err)
			return 0
		}
		for n := range 500 {
			keys := keys(batch(n))
			_, err := f.Add(context.Background(), keys, 0, make([]bool, len(keys)))
			if errors.Is(err, engine.ErrFull) {
				if !strings.Contains(err.Error(), "limits.memory_bytes") {
					t.Error(err)
				}
				return n
			} else if err != nil {
				t.Error(err)
				return n
			}
			if got := sum(); got > limit {
				t.Errorf("the filters take %d bytes, want %d at most", got, limit)
				return n
			}
		}
		return 500
	}
	names := []string{"bloom", "timing", "exact"}
	taken := make([]int, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { taken[i] = fill(name) })
		all.Go(func() { fill(name) }) // the same items at the same time
	}
	all.Wait()
	if got := sum(); got > limit || got < limit/2 {
		t.Errorf("full at %d bytes, want %d at most", got, limit)
	}
	if got := told.Load(); got < limit/2 {
		t.Errorf("told were %d bytes of %d", got, sum())
	}
	for i, name := range names {
		f, _ := e.Lookup(name)
		for n := range taken[i] {
			keys, fresh := keys(batch(n)), make([]bool, 10_000)
			if n, err := f.Add(context.Background(), keys, 0, fresh); n > 0 || err != nil {
				t.Errorf("filter %s: seen items: %d new, %v", name, n, err)
			}
		}
	}
	if n := fill("unused"); n != 0 {
		t.Errorf("a bit-map of 300 MB took %d batches", n)
	}
	if err := e.Drop(t.Context(), "exact"); err != nil {
		t.Fatal(err)
	}
	if n := fill("fixed"); n == 0 {
		t.Error("nothing was taken after another filter was dropped")
	}
}
