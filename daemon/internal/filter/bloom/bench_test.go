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
							m.Prefetcher().Prefetch(keys[from:at])
						}
					}
					m.Add(keys, fresh)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
			})
		}
	}
}
