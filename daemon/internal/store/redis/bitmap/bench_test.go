package bitmap_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// The cost of a batch of 500 new items, including Redis.
func BenchmarkAdd(b *testing.B) {
	store, err := redisstore.Open(b.Context(), redisstore.Config{
		Options: servers.Options{Addrs: []string{redistest.Start(b).Addr}}, Log: slog.New(slog.DiscardHandler), Dir: b.TempDir(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	if _, err := store.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	set, err := store.Create(b.Context(), engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000_000, ErrorRate: 1e-4, OnFull: "warn"}}, storetest.Identity())
	if err != nil {
		b.Fatal(err)
	}
	keys, fresh := make([]bloom.Hash, 500), make([]bool, 500)
	for b.Loop() {
		for i := range keys {
			keys[i] = bloom.Hash{Hi: rand.Uint64(), Lo: rand.Uint64()}
		}
		if _, err := set.Add(b.Context(), keys, fresh); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/item")
}
