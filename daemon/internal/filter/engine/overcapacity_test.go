package engine_test

import (
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
