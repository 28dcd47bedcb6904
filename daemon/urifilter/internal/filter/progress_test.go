package filter

import (
	"bytes"
	"testing"
	"time"
)

func TestProgressIsForLongInputs(t *testing.T) {
	var w bytes.Buffer
	p := newProgress(&w, 200<<20)
	now := p.start
	p.now = func() time.Time { return now }
	done := tally{read: 1_234_567, fresh: 1000, bytes: 50 << 20}

	now = now.Add(400 * time.Millisecond)
	p.update(done)
	p.clear()
	if w.Len() != 0 {
		t.Errorf("after 0.4 s: %q, want nothing", &w)
	}
	now = now.Add(600 * time.Millisecond)
	p.update(done)
	p.update(done) // too soon
	if got, want := w.String(), "\r\x1b[K 25 % of 200.0 MiB, 1,234,567 items, 1,000 new, 1,234,567 items/s, 3s left"; got != want {
		t.Errorf("after 1 s: %q, want %q", got, want)
	}
	w.Reset()
	p.clear()
	p.clear()
	if got := w.String(); got != "\r\x1b[K" {
		t.Errorf("clear: %q", got)
	}
	p.size = 0
	if got, want := p.line(done, 2*time.Second), "50.0 MiB, 1,234,567 items, 1,000 new, 617,283 items/s"; got != want {
		t.Errorf("size not known: %q, want %q", got, want)
	}
	var none *progress
	none.update(done)
	none.clear()
}
