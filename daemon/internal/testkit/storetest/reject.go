package storetest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// rejecting returns a filter of fixed capacity that rejects what does not fit.
func rejecting(t *testing.T, o Opener, capacity uint64) (engine.Store, *engine.Filter) {
	t.Helper()
	store := open(t, o)
	spec := engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: capacity, ErrorRate: 1e-4, OnFull: "reject"}}
	e, err := engine.Open(context.Background(), store, engine.Settings{Filters: []engine.Spec{spec}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	return store, f
}

// A filter with on_full: reject takes a batch if what the batch would add fits, and otherwise
// remembers nothing of it.
func testReject(t *testing.T, o Opener, s Sample) {
	ctx := context.Background()
	store, f := rejecting(t, o, 3)
	defer closeStore(t, store)
	add := func(keys ...bloom.Hash) (int, error) { return f.Add(ctx, keys, 0, make([]bool, len(keys))) }
	k := Keys(f.Set, 0, 8)
	for _, c := range []struct {
		keys []bloom.Hash
		want int // -1: full
	}{
		{k[:2], 2},
		{k[:5], -1}, // two are known, three new
		{k[3:8], -1},
		{[]bloom.Hash{k[0], k[1], k[1], k[0], k[2], k[2]}, 1},
		{k[:3], 0},
		{k[3:4], -1},
		{k[2:4], -1},
		{nil, 0},
	} {
		n, err := add(c.keys...)
		if full := errors.Is(err, engine.ErrFull); full != (c.want < 0) || !full && (err != nil || n != c.want) {
			t.Errorf("%d keys: %d, %v; want %d", len(c.keys), n, err, c.want)
		}
	}
	wantCount(t, "new, those that did not fit", has(t, f.Set, k), 5)
}

// Callers that fill such a filter at the same time fill it exactly, and none is refused what fits.
func testRejectContention(t *testing.T, o Opener, s Sample) {
	const capacity, callers = 40, 8
	store, f := rejecting(t, o, capacity)
	defer closeStore(t, store)
	keys := Keys(f.Set, 0, capacity)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() { // each caller has all items, in another order, in batches of five
			for i := range capacity / 5 {
				at := (i + c) % (capacity / 5) * 5
				if _, err := f.Add(context.Background(), keys[at:at+5], 0, make([]bool, 5)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	wantCount(t, "not taken", has(t, f.Set, keys), 0)
	others := Keys(f.Set, capacity, callers)
	for c := range callers {
		all.Go(func() {
			if _, err := f.Add(context.Background(), others[c:c+1], 0, make([]bool, 1)); !errors.Is(err, engine.ErrFull) {
				t.Errorf("full: %v", err)
			}
		})
	}
	all.Wait()
}
