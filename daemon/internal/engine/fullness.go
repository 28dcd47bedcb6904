package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// fullness remembers which warning about a filter's fill was given last.
type fullness struct{ percent atomic.Uint32 }

// Add is Set.Add, with on_full obeyed. expire is for Timed filters; 0 is that of the
// filter.
func (f *Filter) Add(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	if timed, ok := f.Set.(Timed); ok && expire != 0 {
		return timed.AddFor(ctx, keys, expire, fresh)
	}
	if f.OnFull == "reject" {
		if st := f.Stats(); st.Items >= f.Capacity {
			return 0, fmt.Errorf("filter %s: %d of %d items: %w", f.Name, st.Items, f.Capacity, ErrFull)
		}
	}
	return f.Set.Add(ctx, keys, fresh)
}

// WarnFull logs once for every threshold that a filter's fill has passed.
// The caller calls it now and then.
func (e *Engine) WarnFull(log *slog.Logger) {
	for _, f := range e.Filters() {
		if f.Capacity == 0 {
			continue // of a kind that is never full
		}
		st := f.Stats()
		percent := uint32(float64(st.Items) / float64(f.Capacity) * 100)
		for _, at := range []uint32{150, 100, 90} {
			if percent >= at && f.warned.percent.Load() < at {
				f.warned.percent.Store(at)
				log.Warn("filter is near or over its capacity; its false positives grow", "filter", f.Name,
					"items_estimate", st.Items, "capacity", f.Capacity, "fpr_estimate", st.FPR, "on_full", f.OnFull)
				break
			}
		}
	}
}
