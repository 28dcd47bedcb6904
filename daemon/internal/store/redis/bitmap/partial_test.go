package bitmap_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// Redis loses all layers of a filter that grew, of which the daemons mirror almost nothing: items in
// the archive are back, closed layers are closed, and daemons find in them what they did not know.
func TestGrowthIsRestored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	var archive atomic.Pointer[[][]byte] // a daemon may find the loss before this test asks it for anything
	archive.Store(&[][]byte{})
	var sets []engine.Layered
	for range 2 {
		store, err := redisstore.Open(ctx, redisstore.Config{
			Options: servers.Options{Addrs: []string{server.Addr}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Dir: t.TempDir(), MirrorBytes: 1 << 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		store.RestoreWith(func(ctx context.Context, _ engine.Spec, bits engine.BitMap) error {
			for i, data := range *archive.Load() {
				if err := bits.MergeStripe(ctx, i, data); err != nil {
					return err
				}
			}
			return bits.Commit(ctx)
		})
		sets = append(sets, loaded(t, store))
	}
	const items = 8000
	add(t, sets[0], 0, items)
	layers := len(sets[0].Layers())
	if layers < 2 {
		t.Fatalf("%d layers: hardly anything grew", layers)
	}
	var stripes [][]byte
	for i := range sets[0].Header().Stripes() {
		data, err := sets[0].Stripe(ctx, i, make([]byte, bloom.StripeBytes))
		if err != nil {
			t.Fatal(err)
		}
		stripes = append(stripes, slices.Clone(data))
	}
	archive.Store(&stripes)
	for _, lose := range [][]string{{"flushall"}, {"del", sets[0].(interface{ StripeKeys() []string }).StripeKeys()[0]}} {
		server.CLI(lose...)
		for _, s := range []engine.Layered{sets[0], sets[1], sets[0]} {
			if n := count(add(t, s, 0, items)); n != 0 {
				t.Errorf("after %v: %d of %d items are new again", lose, n, items)
			}
			if got := len(s.Layers()); got != layers {
				t.Errorf("after %v: %d layers, want %d", lose, got, layers)
			}
		}
	}
	if n := count(add(t, sets[1], items, 1000)); n < 999 {
		t.Errorf("%d of 1000 new items are new", n)
	}
}

// A partial mirror stays within its bytes, counts what it did, and shares with other filters as
// they come and go.
func TestPartialMirrorIsBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	const limit = 4 << 20
	store, small := opened(t, server.Addr, func(c *redisstore.Config) { c.MirrorBytes = limit })
	mirror := func(s engine.Set) base.Mirror { return s.(base.Mirroring).Mirror() }
	if m := mirror(small); m.Partial || m.Bytes != small.Header().Bytes() {
		t.Errorf("a filter that fits has the mirror %+v", m)
	}
	large := growing
	large.ID, large.Name, large.Params = 2, "large", storetest.Samples()[0].Params(10_000_000)
	set, err := store.Create(ctx, large, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if m := mirror(set); !m.Partial || m.Bytes > limit || m.Bytes < limit/2 {
		t.Errorf("a filter of %d bytes has the mirror %+v", set.Stats().Bytes, m)
	}
	add(t, set, 0, 1000)
	add(t, set, 0, 1000)
	if m := mirror(set); m.Asked != 2000 || m.Found != 1000 || m.Evicted != 0 {
		t.Errorf("1000 items that were added twice: %+v", m)
	}
	for rounds := 0; rounds < 2; { // the store counts too, and may have begun the first round while items were added
		last, err := set.(base.Counted).CountNext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if last {
			rounds++
		}
	}
	if st := set.Stats(); st.Items < 990 || st.Items > 1010 {
		t.Errorf("%d items are estimated, want 1000", st.Items)
	}
	other := large
	other.ID, other.Name = 3, "other"
	if _, err := store.Create(ctx, other, storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	whole := mirror(set).Bytes
	for range 64 { // the store does it gradually
		if err := set.(base.Sweeping).Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if got := mirror(set).Bytes; got > limit/2 {
		t.Errorf("with another filter its mirror has %d bytes, before %d", got, whole)
	}
	if n := count(add(t, set, 0, 1000)); n != 0 {
		t.Errorf("%d of 1000 items are new again", n)
	}
	if m := mirror(set); m.Found < 1900 {
		t.Errorf("a smaller mirror has lost what there is room for: %+v", m)
	}
}
