package storetest

import (
	"context"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A filter that grows keeps its error rate at ten times its capacity, forgets nothing over a
// restart, and can be copied by its stripes with all its layers.
func testGrow(t *testing.T, o Opener, s Sample) {
	const capacity, n = 10_000, 100_000
	store, set := one(t, o, s, capacity)
	if _, grows := set.(engine.Layered); !grows {
		closeStore(t, store)
		return // testCapacity is about those
	}
	Add(t, set, Keys(set, 0, n/2))
	store, set = reopen(t, o, store, s.spec("uri", 1, capacity))
	for at := n / 2; at < n; at += 1000 {
		Add(t, set, Keys(set, at, 1000))
	}
	wantCount(t, "false negatives", has(t, set, Keys(set, 0, n)), 0)
	wrong := n - count(has(t, set, Keys(set, n, n)))
	if rate := float64(wrong) / n; rate > 3e-4 {
		t.Errorf("at ten times the capacity %v false positives, asked 1e-4", rate)
	}
	grown := set.(engine.Layered)
	st, layers := grown.Stats(), grown.Layers()
	if st.FPR > 1e-4 || st.Items < n*98/100 || st.Items > n*102/100 || len(layers) < 2 {
		t.Errorf("%d layers, %+v", len(layers), st)
	}
	if st.Bytes != grown.Header().Bytes() || grown.Memory() < st.Bytes && !o.Bounded {
		t.Errorf("%d bytes, header says %d, memory %d", st.Bytes, grown.Header().Bytes(), grown.Memory())
	}

	h := grown.Header()
	made, err := store.Create(context.Background(), s.spec("copy", 2, capacity), engine.Identity{Seed: h.Seed, Generation: h.Generation, Created: h.Created})
	if err != nil {
		t.Fatal(err)
	}
	to := made.(engine.BitMap)
	mergeAll(t, to, grown)
	if to.Header() != h {
		t.Errorf("the copy has the header %+v, want %+v", to.Header(), h)
	}
	store, set = reopen(t, o, store, s.spec("copy", 2, capacity))
	defer closeStore(t, store)
	wantCount(t, "new in the copy", has(t, set, Keys(set, 0, n)), 0)
}
