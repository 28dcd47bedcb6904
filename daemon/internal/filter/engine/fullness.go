package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// fullness records the last warning about a filter's fill.
type fullness struct{ percent atomic.Uint32 }

// Add is Set.Add, but obeys on_full and the bound on memory. expire is for Timed filters; 0 means the
// filter's own.
func (f *Filter) Add(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	if growing, ok := f.Set.(Growing); ok && f.most > 0 && growing.Memory() >= f.most {
		return f.addToFull(ctx, growing, keys, fresh)
	}
	if timed, ok := f.Set.(Timed); ok && expire != 0 {
		return timed.AddFor(ctx, keys, expire, fresh)
	}
	if f.bound.Rejects() {
		return f.addWithin(ctx, keys, fresh)
	}
	return f.Set.Add(ctx, keys, fresh)
}

// addToFull adds nothing: a batch with only seen items gets its answer, any other gets ErrFull.
func (f *Filter) addToFull(ctx context.Context, growing Growing, keys []bloom.Hash, fresh []bool) (int, error) {
	if err := growing.Has(ctx, keys, fresh); err != nil {
		return 0, err
	}
	if slices.Contains(fresh, true) {
		return 0, fmt.Errorf("filter %s: its items need %d bytes of memory, and limits.filter_bytes is %d; it takes new ones when %s: %w",
			f.Name, growing.Memory(), f.most, whenRoom(growing), ErrFull)
	}
	return 0, nil
}

// whenRoom says when a filter at its memory bound has room again.
func whenRoom(growing Growing) string {
	switch growing.(type) {
	case Timed:
		return "others have expired"
	case Similar:
		return "that is raised, or after it was cleared"
	}
	if _, ok := growing.(Forgetful); ok {
		return "that is raised, or others are forgotten"
	}
	return "that is raised"
}

// warnMemory is WarnFull for a filter that grows.
func (f *Filter) warnMemory(growing Growing, log *slog.Logger) {
	const near = 90
	percent := uint32(float64(growing.Memory()) / float64(f.most) * 100)
	switch was := f.warned.percent.Load(); {
	case percent >= near && was < near:
		f.warned.percent.Store(near)
		log.Warn("filter is near limits.filter_bytes; at it new items are refused", "filter", f.Name,
			"until", whenRoom(growing), "bytes", growing.Memory(), "limit", f.most)
	case percent < near/2 && was >= near:
		f.warned.percent.Store(0) // the warning may be repeated
	}
}

// WarnFull logs once for every threshold that a filter's fill has passed.
// The caller calls it from time to time.
func (e *Engine) WarnFull(log *slog.Logger) {
	for _, f := range e.Filters() {
		if growing, ok := f.Set.(Growing); ok && f.most > 0 {
			f.warnMemory(growing, log)
		}
		if f.bound.Items == 0 || f.bound.Grows() {
			continue // has no capacity
		}
		f.look() // another daemon may have filled it
		st := f.Stats()
		made := f.load.holds
		if f.bound.Rejects() {
			made = f.bound.Items
		}
		percent := uint32(float64(st.Items) / float64(made) * 100)
		for _, at := range []uint32{150, 100, 90} {
			if percent >= at && f.warned.percent.Load() < at {
				f.warned.percent.Store(at)
				log.Warn("filter is near or over its capacity; its false positives grow", "filter", f.Name,
					"items_estimate", st.Items, "capacity", made, "fpr_estimate", st.FPR, "on_full", f.bound.OnFull)
				break
			}
		}
	}
}
