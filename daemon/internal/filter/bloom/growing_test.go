package bloom

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newGrowing(t testing.TB, capacity uint64, rate float64) *Growing {
	t.Helper()
	return newGrowingAs(t, capacity, rate, true)
}

// newGrowingAs is newGrowing, where an item may not set pairs of bits if mayPair is false.
func newGrowingAs(t testing.TB, capacity uint64, rate float64, mayPair bool) *Growing {
	t.Helper()
	h, err := NewGrowingHeader(capacity, rate, mayPair, 42, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGrowing(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// addRandom adds n random keys in batches and returns how many were fresh, and the keys.
func addRandom(add func([]Hash, []bool) int, random *rand.Rand, n, batch int) (fresh int, keys []Hash) {
	keys = make([]Hash, n)
	for i := range keys {
		keys[i] = Hash{Hi: random.Uint64(), Lo: random.Uint64()}
	}
	told := make([]bool, batch)
	for at := 0; at < n; at += batch {
		part := keys[at:min(at+batch, n)]
		fresh += add(part, told[:len(part)])
	}
	return fresh, keys
}

// At ten times the capacity no item that was added is new, and other items are taken for seen no
// more often than at the requested rate.
func TestNoRaceGrowingKeepsItsRateBeyondItsCapacity(t *testing.T) {
	for _, test := range []struct {
		capacity uint64
		rate     float64
		batch    int
		format   uint32
	}{
		{100_000, 1e-3, 1000, VersionPairs},
		{100_000, 1e-3, 1000, VersionFifths},
		{100_000, 1e-2, 100_000, VersionFifths}, // one batch passes several capacities
		{2_000, 0.05, 1000, VersionFifths},
		{50_000, 1e-4, 333, VersionPairs},
		{50_000, 1e-4, 333, VersionFifths},
		{20_000, 1e-5, 20_000, VersionPairs},
	} {
		g := newGrowingAs(t, test.capacity, test.rate, test.format == VersionPairs)
		if got := g.Header().Version(); got != test.format {
			t.Errorf("%+v: format %d", test, got)
		}
		random := rand.New(rand.NewPCG(1, test.capacity))
		n := int(test.capacity) * 10
		_, keys := addRandom(g.Add, random, n, test.batch)
		if layers := g.Header().Layers; layers < 2 {
			t.Errorf("%+v: %d layers: nothing grew", test, layers)
		}
		fresh := make([]bool, n)
		g.Has(keys, fresh)
		for i := range fresh {
			if fresh[i] {
				t.Fatalf("%+v: key %d is new again", test, i)
			}
		}
		const probes = 1_000_000
		wrong := 0
		probe, told := make([]Hash, 1000), make([]bool, 1000)
		for range probes / len(probe) {
			for i := range probe {
				probe[i] = Hash{Hi: random.Uint64(), Lo: random.Uint64()}
			}
			g.Has(probe, told)
			for _, f := range told {
				if !f {
					wrong++
				}
			}
		}
		measured, fill := float64(wrong)/probes, g.Fill()
		t.Logf("%+v: %d layers, %.1f bits an item, rate measured %.2g, estimated %.2g", test,
			g.Header().Layers, float64(g.Header().Bytes()*8)/float64(n), measured, fill.FPR)
		if measured > test.rate || fill.FPR > test.rate {
			t.Errorf("%+v: false-positive rate measured %g, estimated %g", test, measured, fill.FPR)
		}
		if got := float64(fill.Items); got < float64(n)*0.99*(1-test.rate) || got > float64(n)*1.01 {
			t.Errorf("%+v: estimate of %v items, added %d", test, got, n)
		}
	}
}

// If many callers add the same key at the same time, it is fresh for exactly one of them, even
// while layers are added.
func TestGrowingIsExactlyOnceWhileLayersAreAdded(t *testing.T) {
	g := newGrowing(t, 30_000, 1e-6)
	const n, callers = 300_000, 8
	keys := make([]Hash, n)
	random := rand.New(rand.NewPCG(2, 2))
	for i := range keys {
		keys[i] = Hash{Hi: random.Uint64(), Lo: random.Uint64()}
	}
	times := make([]atomic.Int32, n) // how often each key was fresh
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			fresh := make([]bool, 1000)
			for at := 0; at < n; at += len(fresh) {
				at := (at + c%2*1000) % n // half of the callers begin with the next block of keys
				g.Add(keys[at:at+1000], fresh)
				for i, f := range fresh {
					if f {
						times[at+i].Add(1)
					}
				}
			}
		})
	}
	wait.Wait()
	never := 0
	for i := range times {
		switch times[i].Load() {
		case 1:
		case 0:
			never++ // a false positive
		default:
			t.Fatalf("key %d was fresh %d times", i, times[i].Load())
		}
	}
	if never > 10 {
		t.Errorf("%d of %d keys were never fresh, at an error rate of 1e-6", never, n)
	}
	if layers := g.Header().Layers; layers < 3 {
		t.Errorf("%d layers: nothing grew", layers)
	}
}

// Replaying what OnAdd and OnGrow received, in order, on a copy made at any time sets the same
// bits.
func TestNoRaceGrowingFromItsJournal(t *testing.T) {
	const capacity, rate = 100_000, 0.01
	g := newGrowing(t, capacity, rate)
	type entry struct {
		key    Hash
		layers int // 0: a key
	}
	var journal []entry
	g.OnAdd(func(keys []Hash, fresh []bool) {
		for i, f := range fresh[:len(keys)] {
			if f {
				journal = append(journal, entry{key: keys[i]})
			}
		}
	})
	g.OnGrow(func(layers int) { journal = append(journal, entry{layers: layers}) })
	random := rand.New(rand.NewPCG(3, 3))
	buf := make([]byte, StripeBytes)
	copyOf := func() *Growing {
		c := newGrowing(t, capacity, rate)
		for i := range g.Header().Stripes() {
			if err := c.MergeStripe(i, g.Stripe(i, buf)); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	copies := []*Growing{copyOf()}
	for range 5 {
		addRandom(g.Add, random, capacity, 700)
		copies = append(copies, copyOf())
	}
	if g.Header().Layers < 3 {
		t.Fatalf("%d layers", g.Header().Layers)
	}
	for at, c := range copies {
		for _, e := range journal {
			if e.layers > 0 {
				if err := c.GrowTo(e.layers); err != nil {
					t.Fatal(err)
				}
				continue
			}
			c.AddAsItWas([]Hash{e.key}, []bool{false})
		}
		other := make([]byte, StripeBytes)
		for i := range g.Header().Stripes() {
			if !bytes.Equal(g.Stripe(i, buf), c.Stripe(i, other)) {
				t.Errorf("copy %d: stripe %d differs", at, i)
			}
		}
		if c.Header() != g.Header() {
			t.Errorf("copy %d: %+v, want %+v", at, c.Header(), g.Header())
		}
	}
}

func TestNoRaceGrowingCopiedByStripes(t *testing.T) {
	g := newGrowing(t, 400_000, 1e-4) // of 1.3 MB, so that the last layer has two stripes
	_, keys := addRandom(g.Add, rand.New(rand.NewPCG(4, 4)), 1_500_000, 1000)
	h := g.Header()
	size := 0
	for i := range h.Stripes() {
		size += h.StripeSize(i)
	}
	if uint64(size) != h.Bytes() || h.Layers < 3 || h.Stripes() <= int(h.Layers) {
		t.Fatalf("%d layers, %d stripes of %d bytes in all, want %d", h.Layers, h.Stripes(), size, h.Bytes())
	}
	to := newGrowing(t, 400_000, 1e-4) // with one layer
	buf := make([]byte, StripeBytes)
	for i := range h.Stripes() {
		if err := to.MergeStripe(i, g.Stripe(i, buf)); err != nil {
			t.Fatal(err)
		}
	}
	if to.Header() != h || to.Fill() != g.Fill() {
		t.Errorf("copy %+v %+v, want %+v %+v", to.Header(), to.Fill(), h, g.Fill())
	}
	fresh := make([]bool, len(keys))
	to.Has(keys, fresh)
	for i := range fresh {
		if fresh[i] {
			t.Fatalf("key %d is new in the copy", i)
		}
	}
	if err := to.MergeStripe(0, buf[:64]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a stripe of 64 bytes: %v", err)
	}
	if err := to.Reach(-1); err == nil {
		t.Error("stripe -1 was reached")
	}
}

func TestGrowingHeader(t *testing.T) {
	h, err := NewGrowingHeader(10_000_000, 1e-4, true, 7, time.Unix(5, 6))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := h.MarshalBinary()
	var back Header
	if err := back.UnmarshalBinary(text); err != nil || back != h {
		t.Fatalf("read back %+v, %v; want %+v", back, err, h)
	}
	total, rate := uint64(0), 0.0
	for i := range MaxLayers {
		l := h.Layer(i)
		want := uint64(10_000_000)
		switch {
		case i > 10 && l.Capacity > total*3/4:
			want = total
		case i > 0:
			want = total * smallStep / 100
		}
		if math.Abs(float64(l.Capacity)/float64(want)-1) > 0.02 {
			t.Errorf("layer %d is for %d items, want %d", i, l.Capacity, want)
		}
		total, rate = total+l.Capacity, rate+l.ErrorRate
	}
	if rate > 1e-4 || rate < 0.95e-4 {
		t.Errorf("the rates of all layers are %v together", rate)
	}
	plain, _ := NewHeader(10_000_000, 1e-4, 7, time.Unix(5, 6))
	if plain.SameBits(h) || !h.SameBits(h.more(3)) {
		t.Error("a map that grows is taken for one of fixed size, or not for itself with more layers")
	}
	if _, err := New(h); err == nil {
		t.Error("New made a map of fixed size of a header of one that grows")
	}
	if _, err := NewGrowing(plain); err == nil {
		t.Error("NewGrowing made a map of the header of one of fixed size")
	}
	plainText, _ := plain.MarshalBinary()
	for name, change := range map[string]func(b []byte){
		"no layer":                  func(b []byte) { b[68] = 0 },
		"17 layers":                 func(b []byte) { b[68] = MaxLayers + 1 },
		"a layer of nothing":        func(b []byte) { b[68] = 2; b[72], b[73] = 0, 0 },
		"more than there can be":    func(b []byte) { b[23] = 1; b[68] = MaxLayers },
		"layers in format 1":        func(b []byte) { copy(b, plainText); b[68] = 1 },
		"shares in format 1":        func(b []byte) { copy(b, plainText); b[72] = 1 },
		"format 5":                  func(b []byte) { b[8] = 5 },
		"format 3 of pairs":         func(b []byte) { b[8] = 3 },
		"format 4 of one bit":       func(b []byte) { b[12] = 8 },
		"format 4, layout 0":        func(b []byte) { b[64] = 0 },
		"format 0":                  func(b []byte) { b[8] = 0 },
		"format 2 of a map without": func(b []byte) { copy(b, plainText); b[8] = 2 },
		"format 3 of a map without": func(b []byte) { copy(b, plainText); b[8] = 3 },
		"format 4 of a map without": func(b []byte) { copy(b, plainText); b[8], b[12], b[64] = 4, 16, 1 },
	} {
		bad := append([]byte(nil), text...)
		change(bad)
		sum := Checksum(bad[:124])
		bad[124], bad[125], bad[126], bad[127] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		err := back.UnmarshalBinary(bad)
		if err == nil || strings.HasPrefix(name, "format") && !strings.Contains(err.Error(), "format") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// more returns the header with n more layers.
func (h Header) more(n uint32) Header { h.Layers += n; return h }

func TestGrowingMemoryCountsTheLayerThatIsDue(t *testing.T) {
	g := newGrowing(t, 100_000, 1e-4)
	one, two := g.Header().Bytes(), g.Header().more(1).Bytes()
	random := rand.New(rand.NewPCG(5, 5))
	addRandom(g.Add, random, 99_000, 1000)
	if g.Memory() != one {
		t.Errorf("below the capacity: %d bytes, want %d", g.Memory(), one)
	}
	addRandom(g.Add, random, 2_000, 2_000)
	if g.Memory() != two || g.Header().Bytes() != one {
		t.Errorf("at the capacity: %d bytes of %d, want %d of %d", g.Memory(), g.Header().Bytes(), two, one)
	}
	addRandom(g.Add, random, 1, 1)
	if g.Memory() != two || g.Header().Bytes() != two {
		t.Errorf("beyond it: %d bytes of %d, want %d", g.Memory(), g.Header().Bytes(), two)
	}
}
