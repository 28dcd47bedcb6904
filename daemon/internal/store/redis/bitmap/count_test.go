package bitmap

import "testing"

// A count that Redis made before bits were set does not take these back: a filter that rejects what does not fit
// would take more than its capacity.
func TestLateCountTakesNothingBack(t *testing.T) {
	var c counts
	before := c.added()
	c.add(3, 40)
	if c.set(3, 0, before); c.sum() != 40 {
		t.Errorf("%d bits after a late count, want 40", c.sum())
	}
	if c.set(3, 50, before); c.sum() != 50 { // other daemons have set some
		t.Errorf("%d bits, want 50", c.sum())
	}
	if c.set(3, 45, c.added()); c.sum() != 45 { // some had counted twice
		t.Errorf("%d bits, want 45", c.sum())
	}
}
