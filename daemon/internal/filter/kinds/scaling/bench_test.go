package scaling

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// BenchmarkAdd measures batches of 1,000 keys, of which half were added before, in a chain of one
// layer and in one that has grown tenfold.
func BenchmarkAdd(b *testing.B) {
	for _, capacity := range []uint64{10_000_000, 1_000_000} {
		b.Run(fmt.Sprint(capacity), func(b *testing.B) {
			m := memoryOf(b, configs.NewScaling(capacity, 0.0001, 2, false))
			m.Log(nowhere{})
			var next atomic.Uint64
			next.Store(1)
			fill := func(keys []bloom.Hash, to uint64) {
				for i := range keys {
					n := to - uint64(i)
					if i%2 == 1 && n > 2 {
						n = n * 0x9e3779b97f4a7c15 % to
					}
					keys[i] = bloom.Hash{Hi: n * 0xbf58476d1ce4e5b9, Lo: n*0x94d049bb133111eb | 1}
				}
			}
			keys, fresh := make([]bloom.Hash, 1000), make([]bool, 1000)
			for next.Load() < 10_000_000 {
				fill(keys, next.Add(1000))
				if _, err := m.Add(keys, fresh); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				keys, fresh := make([]bloom.Hash, 1000), make([]bool, 1000)
				for at := 1000; pb.Next(); at++ {
					if at == 1000 {
						at = 0
						fill(keys, next.Add(1000))
						if _, err := m.Add(keys, fresh); err != nil {
							b.Error(err)
						}
					}
				}
			})
		})
	}
}

type nowhere struct{}

func (nowhere) Append([]bloom.Hash, []bool) {}
func (nowhere) AppendEntries([]bloom.Hash)  {}
