package filter

import (
	"testing"
	"time"
)

func TestProgressIsForPeople(t *testing.T) {
	p := &progress{size: 200 << 20}
	done := tally{read: 1_234_567, fresh: 1000, bytes: 50 << 20}
	if got, want := p.line(done, time.Second), " 25 % of 200.0 MiB, 1,234,567 items, 1,000 new, 1,234,567 items/s, 3s left"; got != want {
		t.Errorf("after 1 s: %q, want %q", got, want)
	}
	p.unsized()
	if got, want := p.line(done, 2*time.Second), "50.0 MiB, 1,234,567 items, 1,000 new, 617,283 items/s"; got != want {
		t.Errorf("size not known: %q, want %q", got, want)
	}
	var none *progress
	none.update(done)
	none.unsized()
	none.clear()
}
