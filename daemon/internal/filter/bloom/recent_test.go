package bloom

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

func newRecent(t testing.TB, h Header, bytes uint64) *Recent {
	t.Helper()
	r, err := NewRecent(h, bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// known returns how many of keys r knows.
func (r *Recent) known(keys []Hash) (n int) {
	missing := make([]uint16, len(keys))
	r.Missing(keys, missing)
	for _, m := range missing {
		if m == 0 {
			n++
		}
	}
	return n
}

// sameStripes checks that the stripes of r are those of a map that has exactly these keys.
func sameStripes(t *testing.T, r *Recent, keys []Hash) {
	t.Helper()
	m, err := makeMap(r.header)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Add(keys, make([]bool, len(keys)))
	got, want := make([]byte, r.header.LargestStripe()), make([]byte, r.header.LargestStripe())
	for i := range r.header.Stripes() {
		for b := range got {
			got[b] = 0xAA // earlier content of the buffer must not matter
		}
		if !bytes.Equal(r.Stripe(i, got), m.Stripe(i, want)) {
			t.Errorf("stripe %d is not that of a map with the same items", i)
		}
	}
}

// With room for all items, nothing is evicted and the stripes are those of the map: for a map
// of several stripes, of one, and of fewer blocks than segments.
func TestRecentHasWhatThereIsRoomFor(t *testing.T) {
	for _, c := range []struct {
		capacity uint64
		bytes    uint64
		items    int
	}{{4_000_000, 8 << 20, 50_000}, {100_000, 1 << 20, 2000}, {300, 1 << 20, 40}} {
		h := newMap(t, c.capacity, 1e-4).Header()
		r := newRecent(t, h, c.bytes)
		keys := urlKeys(42, 0, c.items)
		if n := r.known(keys); n != 0 {
			t.Errorf("%d items known before any was learned", n)
		}
		r.Learn(keys)
		if n := r.known(keys); n != len(keys) {
			t.Errorf("%d of %d items known", n, len(keys))
		}
		if n := r.known(urlKeys(42, c.items, c.items)); n != 0 {
			t.Errorf("%d items known that nobody learned", n)
		}
		asked, found, evicted := r.Counts()
		if asked != uint64(3*c.items) || found != uint64(c.items) || evicted != 0 {
			t.Errorf("counts: %d asked, %d found, %d evicted", asked, found, evicted)
		}
		sameStripes(t, r, keys)
	}
	h := newGrowing(t, 100_000, 1e-4).Header().Layer(1)
	r := newRecent(t, h, 1<<20)
	r.Learn(urlKeys(42, 0, 2000))
	sameStripes(t, r, urlKeys(42, 0, 2000))
}

// The latest items are kept within the given memory, including those that are asked for repeatedly.
func TestNoRaceRecentKeepsTheLatest(t *testing.T) {
	h := newMap(t, 4_000_000, 1e-4).Header()
	const room = 1 << 20 // 131,072 items
	r := newRecent(t, h, room)
	if got := r.Bytes(); got > room {
		t.Fatalf("%d bytes, want %d at most", got, room)
	}
	asked := urlKeys(42, 0, 1000)
	r.Learn(asked)
	for at := 1000; at < 500_000; at += 10_000 {
		r.Learn(urlKeys(42, at, 10_000))
		r.known(asked)
	}
	if n := r.known(asked); n < 950 {
		t.Errorf("%d of 1000 items known that were asked for again and again", n)
	}
	if n := r.known(urlKeys(42, 500_000-49_000, 50_000)); n < 48_000 {
		t.Errorf("%d of the latest 50,000 items known", n)
	}
	if n := r.known(urlKeys(42, 1000, 100_000)); n > 2000 {
		t.Errorf("%d of 100,000 items known that nobody asked for again", n)
	}
	if _, _, evicted := r.Counts(); evicted < 300_000 {
		t.Errorf("%d evicted", evicted)
	}
}

// A Recent that is resized keeps the items that there is room for, part by part.
func TestRecentIsResized(t *testing.T) {
	h := newMap(t, 4_000_000, 1e-4).Header()
	r := newRecent(t, h, 1<<20)
	keys := urlKeys(42, 0, 30_000)
	r.Learn(keys)
	adjust := func(bytes uint64) {
		r.SetTarget(bytes)
		for range recentParts {
			if err := r.Adjust(); err != nil {
				t.Fatal(err)
			}
		}
	}
	adjust(8 << 20)
	if got := r.Bytes(); got < 7<<20 || got > 8<<20 {
		t.Errorf("enlarged to %d bytes", got)
	}
	if n := r.known(keys); n < 29_900 {
		t.Errorf("enlarged: %d of %d items known", n, len(keys))
	}
	adjust(128 << 10) // 16,384 items
	if got := r.Bytes(); got > 128<<10 {
		t.Errorf("shrunk to %d bytes", got)
	}
	n := r.known(keys)
	if n < 12_000 || n > 16_384 {
		t.Errorf("shrunk: %d items known", n)
	}
	if _, _, evicted := r.Counts(); evicted != uint64(len(keys)-n) {
		t.Errorf("shrunk: %d items evicted, want the %d that are not known any more", evicted, len(keys)-n)
	}
	if n := r.known(urlKeys(42, 30_000, 30_000)); n != 0 {
		t.Errorf("%d items known that nobody learned", n)
	}
	adjust(0)
	if got, want := r.Bytes(), minRecent(h); got > want {
		t.Errorf("%d bytes, want at most %d", got, want)
	}
	var still []Hash
	missing := make([]uint16, len(keys))
	r.Missing(keys, missing)
	for i, m := range missing {
		if m == 0 {
			still = append(still, keys[i])
		}
	}
	if len(still) == 0 {
		t.Fatal("nothing is left")
	}
	sameStripes(t, r, still)
}

// Even at the least size for the largest map, its blocks are told apart.
func TestRecentOfALargeMap(t *testing.T) {
	h, err := NewHeader(10_000_000_000, 1e-4, 42, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := newRecent(t, h, 0)
	if got := r.Bytes(); got > minRecent(h) || got > 2<<20 {
		t.Errorf("%d bytes, least %d", got, minRecent(h))
	}
	keys := urlKeys(42, 0, 20_000)
	r.Learn(keys)
	var there []Hash
	missing := make([]uint16, len(keys))
	r.Missing(keys, missing)
	for i, m := range missing {
		if m == 0 {
			there = append(there, keys[i])
		}
	}
	if len(there) < 19_000 {
		t.Errorf("%d of %d items known", len(there), len(keys))
	}
	buf, want := make([]byte, StripeBytes), make([]byte, StripeBytes)
	for _, stripe := range []int{0, 1, 3777, h.Stripes() - 1} {
		clear(want)
		for _, key := range there {
			if at, _ := h.Place(key); at == stripe {
				h.Set(want, key)
			}
		}
		if got := r.Stripe(stripe, buf); !bytes.Equal(got, want[:len(got)]) {
			t.Errorf("stripe %d differs", stripe)
		}
	}
}

func TestRecentIsSafeForConcurrentUse(t *testing.T) {
	h := newMap(t, 1_000_000, 1e-4).Header()
	r := newRecent(t, h, 256<<10)
	var wait sync.WaitGroup
	for caller := range 4 {
		wait.Go(func() {
			buf := make([]byte, StripeBytes)
			for i := range 12 {
				keys := urlKeys(42, caller*100_000+i*1000, 1000)
				r.Learn(keys)
				r.Stripe(0, buf)
				if n := r.known(keys); n > len(keys) {
					t.Errorf("%d known", n)
				}
				r.SetTarget(uint64(64+2*i) << 10)
				if err := r.Adjust(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n := r.known(urlKeys(42, 900_000, 1000)); n != 0 {
		t.Errorf("%d items known that nobody learned", n)
	}
}

// minRecent is the least memory that a Recent of the map h takes, whatever it is given.
func minRecent(h Header) uint64 { return (h.Blocks/setBlocks + 2*recentParts) * setBytes }
