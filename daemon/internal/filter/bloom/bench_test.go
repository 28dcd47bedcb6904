package bloom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkAdd measures a batch of 1,000 that is first hashed whole, or hashed and prefetched part
// by part.
func BenchmarkAdd(b *testing.B) {
	for _, capacity := range []uint64{10_000_000, 150_000_000} {
		m := newMap(b, capacity, 1e-4)
		items := make([][]byte, 1000)
		for i := range items {
			items[i] = fmt.Appendf(nil, "https://www.example.com/catalogue/item/%016x/index.html", rand.Uint64())
		}
		keys, fresh := make([]Hash, 1000), make([]bool, 1000)
		warm := make([]Hash, 1000)
		for range 20000 { // touch the memory
			for i := range warm {
				warm[i] = Hash{Hi: rand.Uint64(), Lo: rand.Uint64()}
			}
			m.Add(warm, fresh)
		}
		var seed uint64
		ahead := m.Prefetcher()
		for _, hashed := range []int{len(items), Ahead} {
			b.Run(fmt.Sprintf("%dM/hashed=%d", capacity/1e6, hashed), func(b *testing.B) {
				for b.Loop() {
					seed++
					at := 0
					for part := range slices.Chunk(items, hashed) {
						from := at
						for _, it := range part {
							keys[at] = Sum(seed, it)
							at++
						}
						if hashed < len(items) {
							ahead.Prefetch(keys[from:at])
						}
					}
					m.Add(keys, fresh)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
			})
		}
	}
}

// BenchmarkGrown measures a batch of 1,000, hashed and prefetched part by part, in a map that has
// grown tenfold, with one bit in each word or pairs: half of its items are new, the others those of the batch before. It gives the
// memory of an item, too.
func BenchmarkGrown(b *testing.B) {
	for _, capacity := range []uint64{200_000, 2_000_000} {
		items := make([][]byte, 1000)
		for i := range items {
			items[i] = []byte("https://www.example.com/catalogue/item/0123456789abcdef/index.html")
		}
		random := rand.New(rand.NewPCG(1, capacity))
		next := func() { // the first half becomes the second
			for i := range items[:500] {
				copy(items[500+i], items[i])
				copy(items[i][39:], fmt.Sprintf("%016x", random.Uint64()))
			}
		}
		keys, fresh := make([]Hash, 1000), make([]bool, 1000)
		run := func(b *testing.B, add, pairs bool) {
			g := newGrowingAs(b, capacity, 1e-4, pairs)
			addRandom(g.Add, random, int(10*capacity)-500*b.N, 1000) // in the end it is tenfold
			b.ResetTimer()
			b.StopTimer()
			for range b.N {
				next()
				if !add {
					for i := range keys {
						keys[i] = Sum(42, items[i])
					}
					g.Add(keys[500:], fresh[500:])
				}
				b.StartTimer()
				ahead := g.Prefetcher()
				for from := 0; from < len(items); from += Ahead {
					for i := from; i < from+Ahead; i++ {
						keys[i] = Sum(42, items[i])
					}
					ahead.Prefetch(keys[from : from+Ahead])
				}
				if add {
					g.Add(keys, fresh)
				} else {
					g.Has(keys, fresh)
				}
				b.StopTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
			b.ReportMetric(float64(g.Header().Bytes())/float64(10*capacity), "bytes/item")
			b.ReportMetric(float64(g.Header().Layers), "layers")
		}
		for _, add := range []bool{true, false} {
			for _, pairs := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dk/add=%v/pairs=%v", capacity/1000, add, pairs), func(b *testing.B) { run(b, add, pairs) })
			}
		}
	}
}
