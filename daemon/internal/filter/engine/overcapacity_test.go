package engine_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

var quiet = slog.New(slog.DiscardHandler)

// The cost, for a batch of a thousand new items, of knowing whether its filter is over capacity.
func BenchmarkOverCapacity(b *testing.B) {
	dir := b.TempDir()
	store, err := embedded.Open(embedded.Options{Dir: dir, Durability: "none", Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	s := spec(1, "uri")
	s.Params = configs.Bloom{Capacity: 10_000_000, ErrorRate: 1e-4, OnFull: "warn"}
	e, err := engine.Open(b.Context(), store, engine.Settings{Filters: []engine.Spec{s}, Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	f, err := e.Lookup("uri")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f.OverCapacity(1000)
	}
}

// No bit-map is smaller than 64 KiB, so one that was made for one item keeps its rate for many.
func TestATinyFilterIsNotOverCapacityBelowItsRate(t *testing.T) {
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := spec(1, "uri")
	s.Params = configs.Bloom{Capacity: 1, ErrorRate: 1e-4, OnFull: "warn"}
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: []engine.Spec{s}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 200_000; n++ {
		if _, err := f.Add(context.Background(), keys([]uint64{n}), 0, make([]bool, 1)); err != nil {
			t.Fatal(err)
		}
		rate, over := f.OverCapacity(1)
		if st := f.Stats(); over && st.FPR < 0.7e-4 || over && rate == 0 || !over && st.FPR > 1e-4 {
			t.Fatalf("%d items, %v false positives: over capacity: %v", st.Items, st.FPR, over)
		}
	}
	if _, over := f.OverCapacity(0); !over {
		t.Error("it never says that it is over capacity")
	}
}
