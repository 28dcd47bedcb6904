package table

import (
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// However often the time changes at which a reservation is forgotten, it has one place in the heap,
// which the memory of a reservation counts.
func TestAReservationHasOnePlaceInTheHeap(t *testing.T) {
	var tab Table
	now := int64(1)
	tab.Leases(func() int64 { return now }, time.Minute)
	s := &tab.leases
	r := s.open(bloom.Hash{Hi: 1, Lo: 2}, now, now+1000)
	other := s.open(bloom.Hash{Hi: 1, Lo: 3}, now, now+500)
	for range 1000 {
		s.set(r, bloom.Hash{Hi: 7}, keyState{state: Held})
		s.set(r, bloom.Hash{Hi: 7}, keyState{state: Released})
		s.settled(r)
	}
	if len(s.due) != 2 {
		t.Fatalf("%d entries for 2 reservations", len(s.due))
	}
	if gone := s.departed(r.goes); len(gone) != 1 || gone[0] != r {
		t.Errorf("the one that goes first: %v", gone)
	}
	if gone := s.departed(other.goes); len(gone) != 1 || gone[0] != other || s.bytes.Load() != 0 {
		t.Errorf("the other one: %v, %d bytes left", gone, s.bytes.Load())
	}
}
