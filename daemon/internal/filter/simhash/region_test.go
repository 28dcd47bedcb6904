package simhash

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// What grows with the documents is not on Go's heap, and so it leaves no garbage there: neither of
// spread fingerprints, nor of those that have most bits in common.
func TestNoRaceNoGarbage(t *testing.T) {
	for name, print := range map[string]func(uint64) uint64{
		"spread":     func(r uint64) uint64 { return r },
		"one bucket": func(r uint64) uint64 { return r >> 44 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			x, rnd := indexFor(t, 3, divideAt), rand.New(rand.NewPCG(1, 1))
			id := make([]byte, 0, 32)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range 150_000 {
				id = fmt.Appendf(id[:0], "https://example.com/%d", i)
				put(t, x, Document{id, print(rnd.Uint64())})
			}
			runtime.ReadMemStats(&after)
			got := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes are mapped and on the heap, %d were taken from the heap", x.Bytes(), got)
			if most := x.Bytes() / 2; got > most {
				t.Errorf("%d bytes were taken from the heap, want %d at most", got, most)
			}
			if err := x.Free(); err != nil || x.Bytes() != 0 || x.Len() != 0 {
				t.Errorf("%v; %d bytes and %d documents are left", err, x.Bytes(), x.Len())
			}
		})
	}
}

// An index takes no more than it said it would.
func TestMemoryFor(t *testing.T) {
	x, rnd := indexFor(t, 3, divideAt), rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 10, 1000, 1, 30_000, 60_000, 100} {
		promised := x.MemoryFor(n, n*len("document"))
		for range n {
			put(t, x, Document{[]byte("document"), rnd.Uint64()})
		}
		if got := x.Bytes(); got > promised {
			t.Errorf("with %d more: %d bytes, want %d at most", n, got, promised)
		}
		if got, want := x.MemoryFor(0, 0), x.Bytes(); got != want {
			t.Errorf("with none more: %d bytes, want %d", got, want)
		}
	}
}

// Nor when one document divides buckets, which then take several times their memory at once.
func TestMemoryForADivision(t *testing.T) {
	for name, c := range map[string]struct {
		distance int
		differ   uint64 // bits in which fingerprints may differ
	}{"of two tables": {3, 0xffffff << 40}, "of two of many": {7, 0xffff_ffff_ffff_0000}} {
		t.Run(name, func(t *testing.T) {
			x, rnd := indexFor(t, c.distance, divideAt), rand.New(rand.NewPCG(1, 1))
			for n := 0; n < 2*divideAt; {
				docs := 1 + rnd.IntN(10)
				promised := x.MemoryFor(docs, docs*len("document"))
				for range docs {
					put(t, x, Document{[]byte("document"), rnd.Uint64() & c.differ})
				}
				if n += docs; x.Bytes() > promised {
					t.Errorf("with %d documents: %d bytes, want %d at most", n, x.Bytes(), promised)
				}
			}
			if len(x.divisions) == 0 {
				t.Error("nothing was divided")
			}
		})
	}
}
