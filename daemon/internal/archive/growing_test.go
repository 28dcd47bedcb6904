package archive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// grown is a bit-map that grows, as a Source and a Sink.
type grown struct{ *bloom.Growing }

func (g grown) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	return g.Growing.Stripe(i, buf), nil
}
func (g grown) MergeStripe(_ context.Context, i int, data []byte) error {
	return g.Growing.MergeStripe(i, data)
}
func (g grown) Commit(context.Context) error { return nil }

// newGrown returns an empty one with the given layers: as many as the archive knows of, or one.
func newGrown(t testing.TB, layers uint32) grown {
	t.Helper()
	h, err := bloom.NewGrowingHeader(100_000, 0.01, true, secretSeed, time.Unix(1700000000, 5))
	if err != nil {
		t.Fatal(err)
	}
	h.Layers = layers
	g, err := bloom.NewGrowing(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return grown{g}
}

func (g grown) fill(from, to int) grown {
	for at := from; at < to; at += 1000 {
		keys := make([]bloom.Hash, 1000)
		for i := range keys {
			keys[i] = bloom.Sum(uint64(at+i), []byte("item"))
		}
		g.Add(keys, make([]bool, len(keys)))
	}
	return g
}

// lacks counts the items from from to to-1 that are not in g.
func (g grown) lacks(from, to int) int {
	n := 0
	for at := from; at < to; at++ {
		fresh := make([]bool, 1)
		g.Has([]bloom.Hash{bloom.Sum(uint64(at), []byte("item"))}, fresh)
		if fresh[0] {
			n++
		}
	}
	return n
}

// A bit-map that grows is written back and restored whole, whichever side has more layers;
// the content that versions share is sent once.
func TestNoRaceGrowingBitMaps(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		a := r.open()
		src := newGrown(t, 1).fill(0, 50_000)
		first := r.write(a, "uri", src)
		src.fill(50_000, 500_000)
		v := r.write(a, "uri", src)
		if v.Header.Layers != 3 || v.Header != src.Header() || v.Bytes != int64(src.Header().Bytes()) {
			t.Errorf("version %+v of %d bytes, want %+v", v.Header, v.Bytes, src.Header())
		}
		if items := src.Fill().Items; v.Items+2 < items || v.Items > items+2 {
			t.Errorf("%d items, the bit-map says %d", v.Items, items)
		}
		if v := r.write(a, "uri", src); v.Uploaded != 0 {
			t.Errorf("unchanged: %d bytes sent", v.Uploaded)
		}

		newest, err := a.Latest(ctx, "uri")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Verify(ctx, newest, nil); err != nil {
			t.Fatal(err)
		}
		small := newGrown(t, 1).fill(600_000, 601_000)
		if err := a.Restore(ctx, newest, small, nil); err != nil {
			t.Fatal(err)
		}
		if n := small.lacks(0, 500_000) + small.lacks(600_000, 601_000); n != 0 || small.Header().Layers != 3 {
			t.Errorf("restored: %d items are new, %d layers", n, small.Header().Layers)
		}
		if err := a.Restore(ctx, first, small, nil); err != nil { // of one layer into three
			t.Error(err)
		}

		// A store that lost the later layers writes back: the archive keeps them.
		late := newGrown(t, 1).fill(700_000, 701_000)
		v = r.write(a, "uri", late)
		if v.Header.Layers != 3 || v.Items < newest.Items {
			t.Errorf("version of %d layers and %d items, want 3 and %d or more", v.Header.Layers, v.Items, newest.Items)
		}
		all := newGrown(t, v.Header.Layers)
		if err := a.Restore(ctx, v, all, nil); err != nil {
			t.Fatal(err)
		}
		if n := all.lacks(0, 500_000) + all.lacks(700_000, 701_000); n != 0 {
			t.Errorf("%d items are lost", n)
		}
		r.noOrphans(a)
	})
}

// A bit-map of fixed size and one that grows never mix, and the format says which one it is.
func TestGrowingAndFixedDoNotMix(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		a := r.open()
		g := newGrown(t, 1).fill(0, 1000)
		v := r.write(a, "uri", g)
		fixed := newSet(t, g.Header().Layer(0))
		var mismatch *MismatchError
		if err := a.Restore(ctx, v, fixed, nil); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "grows") {
			t.Errorf("restored into one of fixed size: %v", err)
		}
		if _, err := a.Writeback(ctx, spec("uri"), fixed, nil); !errors.As(err, &mismatch) {
			t.Errorf("one of fixed size was written back over it: %v", err)
		}
		set := func(format int) {
			if _, err := a.versions.UpdateOne(ctx, bson.M{"_id": v.ID}, bson.M{"$set": bson.M{"format": format}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []int{1, 2, 4} {
			set(other)
			if _, err := a.Latest(ctx, "uri"); err == nil {
				t.Errorf("a document of format %d was read, with a bit-map of format 3", other)
			}
		}
		set(5)
		var format *FormatError
		if _, err := a.Latest(ctx, "uri"); !errors.As(err, &format) {
			t.Errorf("a document of format 5: %v", err)
		}
	})
}
