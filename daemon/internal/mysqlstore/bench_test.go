package mysqlstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
)

// Batches of 1,000 items, half of them duplicates.
func BenchmarkAdd(b *testing.B) { bench(b, nil) }

// bench has callers add batches, after prepare.
func bench(b *testing.B, prepare func(*Set)) {
	const n = 1000
	server := mysqltest.Start(b)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d", callers), func(b *testing.B) {
			_, set := opened(b, config(server))
			if prepare != nil {
				prepare(set)
			}
			var batches atomic.Int64
			var work sync.WaitGroup
			b.ResetTimer()
			for range callers {
				work.Go(func() {
					for i := batches.Add(1); i <= int64(b.N); i = batches.Add(1) {
						if _, err := set.Add(context.Background(), storetest.Keys(set, int(i)*n/2, n), make([]bool, n)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
