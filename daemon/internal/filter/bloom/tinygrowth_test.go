package bloom

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// However small the first capacity, a map that grows can take thousands of millions of items within
// its error rate, in layers that do not jump far beyond what is needed.
func TestATinyMapGrowsToAnySize(t *testing.T) {
	for _, capacity := range []uint64{1, 2, 3, 10, 100, 1_000, 100_000} {
		for _, rate := range []float64{0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6} {
			for _, mayPair := range []bool{true, false} {
				h, err := NewGrowingHeader(capacity, rate, mayPair, 1, time.Unix(0, 0))
				if err != nil {
					t.Fatal(err)
				}
				items, wrong := uint64(0), 0.0
				for i := range MaxLayers {
					l := h.Layer(i)
					items += l.Capacity
					wrong += l.Expected(l.Capacity)
					if i > 0 && l.Bytes() > 2<<20 && l.Bytes() > 6*h.Layer(i-1).Bytes() {
						t.Errorf("capacity %d, rate %v: layer %d has %d bytes, the one before %d", capacity, rate, i, l.Bytes(), h.Layer(i-1).Bytes())
					}
				}
				if items < 1<<32 || wrong > rate {
					t.Errorf("capacity %d, rate %v: %d items at %v false positives", capacity, rate, items, wrong)
				}
			}
		}
	}
}

// The smallest input of issue 31, number 3: capacity 1, rate 0.01.
func TestNoRaceATinyMapKeepsItsRate(t *testing.T) {
	for _, capacity := range []uint64{1, 100} {
		for _, rate := range []float64{0.5, 0.01, 1e-4, 1e-6} {
			g := newGrowing(t, capacity, rate)
			const n = 500_000
			random := rand.New(rand.NewPCG(3, capacity))
			_, keys := addRandom(g.Add, random, n, 1000)
			fresh := make([]bool, n)
			g.Has(keys, fresh)
			for i := range fresh {
				if fresh[i] {
					t.Fatalf("key %d is new again", i)
				}
			}
			for i := range keys {
				keys[i] = Hash{Hi: random.Uint64(), Lo: random.Uint64()}
			}
			g.Has(keys, fresh)
			wrong := 0
			for _, f := range fresh {
				if !f {
					wrong++
				}
			}
			if measured := float64(wrong) / n; measured > rate+4*math.Sqrt(rate/n) || g.Outgrown() {
				t.Errorf("capacity %d, rate %v: measured %v, %d layers", capacity, rate, measured, g.Header().Layers)
			}
		}
	}
}

// A map that was made when layers doubled from the first capacity on ends after the last layer, and
// says so before its rate is broken.
func TestAnOldTinyMapSaysThatItEnds(t *testing.T) {
	h, err := NewGrowingHeader(1, 0.01, false, 1, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	h.fifths = false
	for i := range h.growth {
		h.growth[i] = growthUnit // all layers had the least size
	}
	g, err := NewGrowing(h)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	random := rand.New(rand.NewPCG(4, 4))
	batch, fresh := make([]Hash, 500), make([]bool, 500)
	items := 0
	for ; !g.Outgrown() && items < 1_000_000; items += len(batch) {
		for i := range batch {
			batch[i] = Hash{Hi: random.Uint64(), Lo: random.Uint64()}
		}
		g.Add(batch, fresh)
	}
	if fill := g.Fill(); !g.Outgrown() || items < 65_535 || fill.FPR > 0.011 {
		t.Errorf("%d items, outgrown: %v, %v false positives", items, g.Outgrown(), fill.FPR)
	}
}
