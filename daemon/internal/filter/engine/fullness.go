package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// fullness records the last warning about a filter's fill.
type fullness struct{ percent atomic.Uint32 }

// Add is Set.Add, but obeys on_full and the bounds on memory. expire is for Timed filters; 0 means the
// filter's own.
func (f *Filter) Add(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	if layered, ok := f.Set.(Layered); ok && layered.Outgrown() {
		return 0, f.hasOnly(ctx, keys, fresh)
	}
	claimed, done, err := f.claimFor(keys, fresh, itemsMore, func() error { return f.Set.Has(ctx, keys, fresh) })
	if err != nil || done {
		return 0, err
	}
	defer f.unclaim(claimed)
	if timed, ok := f.Set.(Timed); ok && expire != 0 {
		return timed.AddFor(ctx, keys, expire, fresh)
	}
	if f.bound.Rejects() {
		return f.addWithin(ctx, keys, fresh)
	}
	return f.Set.Add(ctx, keys, fresh)
}

// hasOnly is for a filter that has grown as far as it can: it answers a batch of seen items.
func (f *Filter) hasOnly(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	if err := f.Set.Has(ctx, keys, fresh); err != nil || !slices.Contains(fresh, true) {
		return err
	}
	return fmt.Errorf("filter %s: it has grown by all %d layers that there can be, and holds about %d items: make one of a larger capacity: %w", f.Name, bloom.MaxLayers, f.Stats().Items, ErrFull)
}

// whenRoom says when a filter at its memory bound has room again.
func whenRoom(set Set) string {
	switch set.(type) {
	case Timed:
		return "others have expired"
	case Similar:
		return "that is raised, or after it was cleared"
	}
	if _, ok := set.(Forgetful); ok {
		return "that is raised, or others are forgotten"
	}
	return "that is raised"
}

// Full is how full a filter is, as a share of what it may have: of its capacity, or of limits.filter_bytes if it grows. 0: it
// has no bound, or is nowhere near it. From NearlyFull on it deserves a warning; at 1 and more, a filter that is Refusing
// takes no new items.
func (f *Filter) Full() (share float64, refusing bool) {
	if layered, ok := f.Set.(Layered); ok && layered.Outgrown() {
		return 1, true
	}
	if growing, ok := f.Set.(Growing); ok && f.memoryLimit > 0 {
		return float64(growing.Memory()) / float64(f.memoryLimit), true
	}
	if f.bound.Items == 0 || f.bound.Grows() {
		return 0, false
	}
	return float64(f.Stats().Items) / float64(f.madeFor()), f.bound.Rejects()
}

// madeFor is how many items a filter that does not grow can hold: within its error rate, or at all.
func (f *Filter) madeFor() uint64 {
	if f.bound.Rejects() {
		return f.bound.Items
	}
	return f.load.holds
}

// Capacity is up to how many items the error rate asked for holds as the filter is now: that of all layers of one that
// grows, else the one it was made with. 0: it has none.
func (f *Filter) Capacity() uint64 {
	switch layered := f.Set.(type) {
	case Layered:
		sum := uint64(0)
		for _, l := range layered.Layers() {
			sum += l.Header.Capacity
		}
		return sum
	case Dumped:
		return layered.Layers().Capacity
	}
	return f.bound.Items
}

// NearlyFull is the share of what a filter may have at which a warning is due.
const NearlyFull = nearMemory / 100.0

// nearMemory is the percentage of a bound on memory at which a warning is due.
const nearMemory = 90

// warnMemory is WarnFull for a filter that grows.
func (f *Filter) warnMemory(growing Growing, log *slog.Logger) {
	percent := uint32(float64(growing.Memory()) / float64(f.memoryLimit) * 100)
	switch was := f.warned.percent.Load(); {
	case percent >= nearMemory && was < nearMemory:
		f.warned.percent.Store(nearMemory)
		log.Warn("filter is near limits.filter_bytes; at it new items are refused", "filter", f.Name,
			"until", whenRoom(growing), "bytes", growing.Memory(), "limit", f.memoryLimit)
	case percent < nearMemory/2 && was >= nearMemory:
		f.warned.percent.Store(0) // the warning may be repeated
	}
}

// WarnFull logs once for every threshold that a filter's fill has passed.
// The caller calls it from time to time.
func (e *Engine) WarnFull(log *slog.Logger) {
	e.warnAll(log)
	for _, f := range e.Filters() {
		if growing, ok := f.Set.(Growing); ok && f.memoryLimit > 0 {
			f.warnMemory(growing, log)
		}
		if f.bound.Items == 0 || f.bound.Grows() {
			continue // has no capacity
		}
		f.look() // another daemon may have filled it
		st := f.Stats()
		made := f.madeFor()
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

// load is the last result of a look at how full a filter is. A look costs some hundred
// nanoseconds, so there is one for each thousandth of the capacity that is added.
type load struct {
	due atomic.Int64  // items until the next look
	fpr atomic.Uint64 // bits of the float64; 0: the filter is within its capacity

	holds uint64 // up to how many items the error rate holds: the capacity, or more in a tiny map
}

const lookShare = 1000

// newLoad returns the load of a filter.
func newLoad(bound configs.Bound, set Set) *load {
	l := &load{holds: bound.Items}
	if bits, ok := set.(BitMap); ok && bound.Items > 0 && !bound.Grows() {
		l.holds = bits.Header().Holds()
	}
	return l
}

// OverCapacity reports whether the filter holds more items than its error rate allows, and if so, the
// estimated present false-positive ratio. fresh is how many items were added since the last
// call. It is as exact as the estimate of the items, plus or minus a thousandth. A filter that
// grows is never over capacity.
func (f *Filter) OverCapacity(fresh int) (fpr float64, over bool) {
	if f.bound.Items == 0 || f.bound.Grows() {
		return 0, false
	}
	if f.load.due.Load() <= 0 || fresh > 0 && f.load.due.Add(-int64(fresh)) <= 0 {
		f.look()
	}
	bits := f.load.fpr.Load()
	return math.Float64frombits(bits), bits != 0
}

func (f *Filter) look() {
	f.load.due.Store(int64(f.bound.Items/lookShare) + 1)
	st, bits := f.Stats(), uint64(0)
	if st.Items > f.load.holds {
		bits = math.Float64bits(st.FPR)
	}
	f.load.fpr.Store(bits)
}
