package bloom

import (
	"testing"
	"time"
)

// A hint is allowed at any time: for no map, for one that is closed, for one that has grown.
func TestPrefetchDoesNoHarm(t *testing.T) {
	keys := []Hash{{}, {Hi: 1 << 63}, {Hi: ^uint64(0), Lo: ^uint64(0)}}
	Prefetcher{}.Prefetch(keys)

	h, err := NewHeader(1_000_000, 1e-4, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(h)
	if err != nil {
		t.Fatal(err)
	}
	of := m.Prefetcher()
	if of.blocks != m.Header().Blocks || of.start == 0 {
		t.Fatalf("%+v, want that of %d blocks", of, m.Header().Blocks)
	}
	of.Prefetch(keys)
	of.Prefetch(nil)
	if n := m.Add(keys, make([]bool, len(keys))); n != len(keys) {
		t.Errorf("%d keys are new, want all of them: a hint adds nothing", n)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	of.Prefetch(keys)

	g := newGrowing(t, 1000, 1e-4)
	for n := 1; n <= 3; n++ {
		if err := g.GrowTo(n); err != nil {
			t.Fatal(err)
		}
		of := g.Prefetcher()
		if want := g.Header().Layer(n - 1).Blocks; of.blocks != want || of.start == 0 {
			t.Errorf("%+v, want that of the last of %d layers, with %d blocks", of, n, want)
		}
		of.Prefetch(keys)
	}
}
