package engine

import (
	"math"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/configs"
)

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
