package mysql

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// Batches of 1,000 items, half of them duplicates.
func BenchmarkAdd(b *testing.B) { bench(b, nil, add) }

// The same in a filter with an active lease, and in one with a lease that has ended.
func BenchmarkAddWhileReserved(b *testing.B) { bench(b, lease(time.Hour), add) }
func BenchmarkAddAfterLease(b *testing.B)    { bench(b, lease(time.Millisecond), add) }

// The same, reserved and committed.
func BenchmarkReserve(b *testing.B) {
	bench(b, nil, func(ctx context.Context, set *Set, keys []bloom.Hash) error {
		id := engine.NewReservation()
		got, err := set.Reserve(ctx, id, keys, time.Hour, make([]bool, len(keys)))
		if err == nil && got.Fresh > 0 {
			_, err = set.Commit(ctx, id, nil, 0, nil)
		}
		return err
	})
}

func add(ctx context.Context, set *Set, keys []bloom.Hash) error {
	_, err := set.Add(ctx, keys, make([]bool, len(keys)))
	return err
}

// Batches of 10 items that are all known: with durability: always they wait for what they have read,
// otherwise not. Beside them nobody writes, or a caller adds batches of 10 items.
func BenchmarkKnown(b *testing.B) {
	server := mysqltest.Start(b)
	for _, writers := range []int{0, 1} {
		for _, durable := range []bool{false, true} {
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("writers=%d/durable=%t/%d", writers, durable, callers), func(b *testing.B) {
					c := config(server)
					c.Durable = durable
					_, set := opened(b, c)
					if err := add(context.Background(), set, storetest.Keys(set, 0, 1000)); err != nil {
						b.Fatal(err)
					}
					ctx, stop := context.WithCancel(context.Background())
					var work, beside sync.WaitGroup
					for range writers {
						beside.Go(func() {
							for i := 1000; ctx.Err() == nil; i += 10 {
								if err := add(context.Background(), set, storetest.Keys(set, i, 10)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					var batches atomic.Int64
					b.ResetTimer()
					for range callers {
						work.Go(func() {
							for i := batches.Add(1); i <= int64(b.N); i = batches.Add(1) {
								if err := add(context.Background(), set, storetest.Keys(set, int(i)%990, 10)); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					work.Wait()
					b.StopTimer()
					stop()
					beside.Wait()
				})
			}
		}
	}
}

// lease returns a function that reserves one item for d.
func lease(d time.Duration) func(*Set) error {
	return func(set *Set) error {
		_, err := set.Reserve(context.Background(), engine.NewReservation(), storetest.Keys(set, 0, 1), d, make([]bool, 1))
		return err
	}
}

// bench calls prepare, and then has callers process batches with do.
func bench(b *testing.B, prepare func(*Set) error, do func(context.Context, *Set, []bloom.Hash) error) {
	const n = 1000
	server := mysqltest.Start(b)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d", callers), func(b *testing.B) {
			_, set := opened(b, config(server))
			if prepare != nil {
				if err := prepare(set); err != nil {
					b.Fatal(err)
				}
			}
			var batches atomic.Int64
			var work sync.WaitGroup
			b.ResetTimer()
			for range callers {
				work.Go(func() {
					for i := batches.Add(1); i <= int64(b.N); i = batches.Add(1) {
						if err := do(context.Background(), set, storetest.Keys(set, int(i)*n/2, n)); err != nil {
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
