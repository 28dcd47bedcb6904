package bitmap_test

import (
	"context"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// Filters of all formats that grow are served on one Redis, side by side, by daemons with whole
// and with small mirrors: items are new once, in each layer, and also after a start.
func TestFormatsSideBySide(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	old, err := os.ReadFile("../../../filter/bloom/testdata/growing2.hex")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.Join(strings.Fields(string(old)), ""))
	if err != nil {
		t.Fatal(err)
	}
	headers := make([]bloom.Header, 3)
	if err := headers[0].UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	for i, mayPair := range []bool{false, true} {
		if headers[1+i], err = bloom.NewGrowingHeader(700, 1e-6, mayPair, 8, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	addr := redistest.Start(t).Addr
	a, _ := opened(t, addr)
	var specs []engine.Spec
	for i, h := range headers {
		h.Layers = 1
		if want := uint32(bloom.VersionGrowing + i); h.Version() != want {
			t.Fatalf("format %d, want %d", h.Version(), want)
		}
		spec := engine.Spec{ID: 2 + i, Name: "f" + string(rune('2'+i)), Kind: "bloom",
			Params: configs.Bloom{Capacity: h.Capacity, ErrorRate: h.ErrorRate, OnFull: "grow"}}
		if _, err := a.CreateFilled(ctx, spec, h, func(context.Context, engine.Sink) error { return nil }); err != nil {
			t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	const batch = 5000
	for round := range 3 { // of another daemon each: the first has whole mirrors, the last one begins
		store := connected(t, addr, func(c *redisstore.Config) {
			if round == 1 {
				smallMirror(c)
			}
		})
		sets, err := store.Load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, spec := range specs {
			set, ok := sets[spec].(engine.Layered)
			if !ok {
				t.Fatalf("%s is not there: %v", spec.Name, sets)
			}
			n := 10_000
			if i == 0 {
				n = 110_000
			}
			for from := 0; from < (round+1)*n; from += batch {
				got, want := count(add(t, set, from, batch)), 0
				if from >= round*n {
					want = batch
				}
				if got > want || got < want-3 {
					t.Fatalf("%s, daemon %d: %d of %d items from %d on are new, want %d", spec.Name, round, got, batch, from, want)
				}
			}
			if layers := len(set.Layers()); round > 0 && layers < 2 {
				t.Errorf("%s: %d layers", spec.Name, layers)
			}
			if round == 2 {
				var cleared engine.Set
				if err := store.Clear(ctx, spec, storetest.Identity(), func(s engine.Set) { cleared = s }); err != nil {
					t.Fatal(err)
				}
				h := cleared.(engine.BitMap).Header()
				if got := count(add(t, cleared, 0, batch)); got < batch-3 || h.Version() != bloom.VersionFifths {
					t.Errorf("%s, cleared: %d of %d items are new, format %d", spec.Name, got, batch, h.Version())
				}
			}
		}
	}
}
