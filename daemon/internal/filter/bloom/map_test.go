package bloom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func newMap(t testing.TB, capacity uint64, rate float64) *Map {
	t.Helper()
	h, err := NewHeader(capacity, rate, 42, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// urlKeys hashes URL-shaped items that differ only in digits.
func urlKeys(seed uint64, from, n int) []Hash {
	keys := make([]Hash, n)
	buf := make([]byte, 0, 80)
	for i := range keys {
		buf = fmt.Appendf(buf[:0], "https://www.example.com/catalogue/section-7/item/%09d.html", from+i)
		keys[i] = Sum(seed, buf)
	}
	return keys
}

func TestAddTellsFreshFromSeen(t *testing.T) {
	m := newMap(t, 10_000, 1e-4)
	keys := urlKeys(42, 0, 3000)
	keys = append(keys, keys[:1000]...) // duplicates within the call, across chunks
	fresh := make([]bool, len(keys))
	if n := m.Add(keys, fresh); n != 3000 {
		t.Fatalf("fresh = %d, want 3000", n)
	}
	for i, f := range fresh {
		if f != (i < 3000) {
			t.Fatalf("fresh[%d] = %v", i, f)
		}
	}
	if n := m.Add(keys, fresh); n != 0 {
		t.Fatalf("second time: fresh = %d, want 0", n)
	}
	m.Has(keys, fresh)
	for i, f := range fresh {
		if f {
			t.Fatalf("Has: key %d is fresh after Add", i)
		}
	}
	other := urlKeys(42, 1_000_000, 1000)
	m.Has(other, fresh)
	before := m.Fill()
	unseen := 0
	for _, f := range fresh[:1000] {
		if f {
			unseen++
		}
	}
	if unseen < 995 {
		t.Errorf("Has: %d of 1000 unseen keys are fresh", unseen)
	}
	if after := m.Fill(); after != before {
		t.Errorf("Has changed the map: %+v, then %+v", before, after)
	}
	if m.Add(nil, nil) != 0 {
		t.Error("no keys: want 0")
	}
}

// Many goroutines add the same new keys in lockstep: each key is fresh for one of them.
func TestExactlyOnceUnderContention(t *testing.T) {
	const workers, rounds, n = 8, 40, 5000
	m := newMap(t, workers*rounds*n, 1e-4)
	logged := 0
	m.OnAdd(func(keys []Hash, fresh []bool) {
		for _, f := range fresh[:len(keys)] {
			if f {
				logged++
			}
		}
	})
	for round := range rounds {
		keys := urlKeys(7, round*n, n)
		wins := make([]int, n)
		var mu sync.Mutex
		var wg sync.WaitGroup
		gate := make(chan struct{})
		for w := range workers {
			mine := append([]Hash(nil), keys...)
			if w%2 == 1 { // half of the goroutines begin at the other end
				for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
					mine[i], mine[j] = mine[j], mine[i]
				}
			}
			wg.Go(func() {
				fresh := make([]bool, n)
				<-gate
				m.Add(mine, fresh)
				mu.Lock()
				defer mu.Unlock()
				for i, f := range fresh {
					if f && w%2 == 1 {
						wins[n-1-i]++
					} else if f {
						wins[i]++
					}
				}
			})
		}
		close(gate)
		wg.Wait()
		for i, won := range wins {
			// A key that is a false positive of earlier ones is fresh for nobody.
			if won > 1 {
				t.Fatalf("round %d: key %d is fresh for %d goroutines", round, i, won)
			}
		}
	}
	items := m.Fill().Items
	if want := rounds * n; logged < want-want/1000 || logged > want {
		t.Errorf("OnAdd saw %d fresh keys, want %d", logged, want)
	}
	if want := float64(rounds * n); math.Abs(float64(items)-want) > want/100 {
		t.Errorf("estimate = %d items, want about %v", items, want)
	}
}

// The assembly, where this machine has it, and the portable form do the same.
func TestProbesAgainstPortable(t *testing.T) {
	compareProbes(t, fastest, portable)
	compareProbes(t, fastestPairs, portablePairs)
}

func compareProbes(t *testing.T, fast, slow probes) {
	rng := rand.New(rand.NewPCG(1, 2))
	var layers [][]block
	for _, blocks := range []int{1, 3, 1024, 100_003} {
		a, b := make([]block, blocks), make([]block, blocks)
		layers = append(layers, a)
		for _, n := range []int{0, 1, 7, 512} {
			for range 20 {
				keys := make([]Hash, n)
				for i := range keys {
					keys[i] = Hash{Hi: rng.Uint64(), Lo: rng.Uint64()}
					if i > 0 && rng.IntN(4) == 0 {
						keys[i] = keys[rng.IntN(i)]
					}
					if rng.IntN(50) == 0 {
						keys[i] = Hash{Hi: math.MaxUint64, Lo: math.MaxUint64}
					}
				}
				fa, fb := make([]bool, n+8), make([]bool, n+8)
				Prefetcher{uintptr(unsafe.Pointer(unsafe.SliceData(a))), uint64(blocks)}.Prefetch(keys)
				fast.hasKeys(a, keys, fa)
				slow.hasKeys(b, keys, fb)
				if !slices.Equal(fa, fb) {
					t.Fatalf("%d blocks: has %v, portable %v", blocks, fa, fb)
				}
				of := layers[rng.IntN(len(layers)):]
				fast.newInAll(of, keys, fa)
				slow.newInAll(of, keys, fb)
				if !slices.Equal(fa, fb) {
					t.Fatalf("%d layers: new %v, portable %v", len(of), fa, fb)
				}
				na, sa := fast.addKeys(a, keys, fa)
				nb, sb := slow.addKeys(b, keys, fb)
				if na != nb || sa != sb {
					t.Fatalf("%d blocks, %d keys: (%d, %d), portable (%d, %d)", blocks, n, na, sa, nb, sb)
				}
				for i := range fa {
					if fa[i] != fb[i] {
						t.Fatalf("%d blocks: fresh[%d] = %v, portable %v", blocks, i, fa[i], fb[i])
					}
				}
			}
		}
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%d blocks: block %d = %x, portable %x", blocks, i, a[i], b[i])
			}
		}
	}
}

// At full load the measured rate is at most the requested one, and no added key is fresh.
func TestNoRaceFalsePositivesAtFullLoad(t *testing.T) { falsePositives(t, 200_000) }
func TestSystemFalsePositivesAtFullLoad(t *testing.T) { falsePositives(t, 2_000_000) }

func falsePositives(t *testing.T, capacity int) {
	for _, rate := range []float64{0.01, 0.001, 0.0001} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			m := newMap(t, uint64(capacity), rate)
			keys := urlKeys(99, 0, capacity)
			fresh := make([]bool, capacity)
			m.Add(keys, fresh)
			m.Has(keys, fresh)
			for i, f := range fresh {
				if f {
					t.Fatalf("false negative: key %d", i)
				}
			}
			fill := m.Fill()
			probes := urlKeys(99, capacity, capacity)
			m.Has(probes, fresh)
			wrong := 0
			for _, f := range fresh {
				if !f {
					wrong++
				}
			}
			measured := float64(wrong) / float64(capacity)
			t.Logf("measured %.3g, estimate %.3g, asked %g, %.2f bits an item", measured, fill.FPR, rate, float64(m.Header().Bytes()*8)/float64(capacity))
			if measured > rate {
				t.Errorf("measured false-positive rate %v, asked %v", measured, rate)
			}
			if math.Abs(fill.FPR-measured) > 0.25*rate {
				t.Errorf("estimated rate %v, measured %v", fill.FPR, measured)
			}
			if diff := math.Abs(float64(fill.Items) - float64(capacity)); diff > float64(capacity)/100 {
				t.Errorf("estimated items %d, added %d", fill.Items, capacity)
			}
		})
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		capacity  uint64
		rate      float64
		low, high float64 // bits per item
	}{
		{10_000_000, 1e-4, 24.9, 25.1},
		{150_000_000, 1e-4, 24.9, 25.1},
		{10_000_000, 1e-3, 16.5, 16.9},
		{10_000_000, 1e-2, 10.6, 11},
		{10_000_000, 1e-6, 54, 56},
		{10_000_000, 0.5, 3.7, 3.9},
	} {
		got := float64(BlocksFor(c.capacity, c.rate, k)) * 512 / float64(c.capacity)
		if got < c.low || got > c.high {
			t.Errorf("%d at %v: %.2f bits an item, want %v to %v", c.capacity, c.rate, got, c.low, c.high)
		}
	}
	if got := BlocksFor(1, 1e-4, k); got != minBlocks {
		t.Errorf("one item: %d blocks, want %d", got, minBlocks)
	}
	for _, bad := range []struct {
		capacity uint64
		rate     float64
	}{{0, 1e-4}, {MaxCapacity + 1, 1e-4}, {1, 0}, {1, 0.6}, {1, math.NaN()}, {1, -1}, {1, 1e-7}} {
		if ValidCapacity(bad.capacity, bad.rate) == nil {
			t.Errorf("capacity %d at %v: no error", bad.capacity, bad.rate)
		}
	}
}
