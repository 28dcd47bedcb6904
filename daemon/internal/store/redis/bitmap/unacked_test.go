package bitmap

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// What others have given out takes no room in a daemon's copy; what it holds itself, or is publishing, stays.
func TestCopyOfTheUnacknowledged(t *testing.T) {
	keys := func(from, n uint64) (all []bloom.Hash) {
		for i := range n {
			all = append(all, bloom.Hash{Lo: from + i})
		}
		return all
	}
	var u unacked
	u.hold(keys(0, 10))
	u.next("self")
	u.hold(keys(10, 10))
	for round := range uint64(3) {
		u.copy(keys(100*(round+1), 10)) // the set of others
		if n := u.size.Load(); n != 30 {
			t.Errorf("round %d: %d items, want 10 of others, 10 that are being published, and 10 that are held", round, n)
		}
	}
	isNew := make([]bool, 30)
	shared, own := u.find(append(keys(0, 20), keys(300, 10)...), isNew)
	if len(shared) != 20 || !own || !isNew[10] || isNew[0] {
		t.Errorf("%d of 20 that the set decides, %v", len(shared), isNew)
	}
	if n := u.size.Load(); n != 0 {
		t.Errorf("%d items are left", n)
	}
}
