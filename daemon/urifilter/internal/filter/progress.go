package filter

import (
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// progress is the single line on a terminal that shows how far a run is. A nil progress
// shows nothing.
type progress struct {
	w           io.Writer
	size        int64 // bytes of the input; 0: not known
	now         func() time.Time
	start, last time.Time
	shown       bool
}

func newProgress(w io.Writer, size int64) *progress {
	p := &progress{w: w, size: size, now: time.Now}
	p.start = p.now()
	return p
}

// update shows t, if an update is due.
func (p *progress) update(t tally) {
	if p == nil {
		return
	}
	now := p.now()
	if now.Sub(p.start) < terminal.ProgressAfter || now.Sub(p.last) < terminal.ProgressEvery {
		return
	}
	p.last, p.shown = now, true
	_ = terminal.Redraw(p.w, p.line(t, now.Sub(p.start)))
}

func (p *progress) line(t tally, elapsed time.Duration) string {
	text := fmt.Sprintf("%s items, %s new, %s", human.Count(t.read), human.Count(t.fresh), rate(t.read, elapsed))
	if p.size <= 0 || t.bytes <= 0 {
		return human.Bytes(t.bytes) + ", " + text
	}
	done := min(float64(t.bytes)/float64(p.size), 1)
	left := time.Duration(float64(elapsed) * (1 - done) / done).Round(time.Second)
	return fmt.Sprintf("%3.0f %% of %s, %s, %s left", 100*done, human.Bytes(p.size), text, left)
}

// unsized forgets the size of the input.
func (p *progress) unsized() {
	if p != nil {
		p.size = 0
	}
}

// clear erases the line, so that other output does not mix with it.
func (p *progress) clear() {
	if p != nil && p.shown {
		_ = terminal.Redraw(p.w, "")
		p.shown = false
	}
}

func rate(items int64, elapsed time.Duration) string {
	if elapsed <= 0 {
		return "0 items/s"
	}
	return human.Count(int64(float64(items)/elapsed.Seconds())) + " items/s"
}
