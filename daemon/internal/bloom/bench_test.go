package bloom

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkAdd(b *testing.B) {
	for _, capacity := range []uint64{10_000_000, 150_000_000} {
		b.Run(fmt.Sprint(capacity/1e6, "M"), func(b *testing.B) {
			m := newMap(b, capacity, 1e-4)
			items := make([][]byte, 1000)
			for i := range items {
				items[i] = fmt.Appendf(nil, "https://www.example.com/catalogue/section-7/item/%016d.html", rand.Uint64()>>12)
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
			b.ResetTimer()
			for range b.N {
				seed++
				for i, it := range items {
					keys[i] = Sum(seed, it)
				}
				m.Add(keys, fresh)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
		})
	}
}
