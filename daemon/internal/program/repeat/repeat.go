// Package repeat paces the work that a program does again and again.
package repeat

import (
	"context"
	"iter"
	"time"
)

// Every yields the time after each interval, until ctx ends. Intervals that pass while a caller still
// works count as one.
func Every(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}
