package filter

import (
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// progress is the single line on a terminal that shows how far a run is. A nil progress
// shows nothing.
type progress struct {
	*terminal.Progress
	size  int64 // bytes of the input; 0: not known
	start time.Time
}

// update shows t, if an update is due.
func (p *progress) update(t tally) {
	if p != nil {
		p.Show("%s", p.line(t, time.Since(p.start)))
	}
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
	if p != nil {
		p.Clear()
	}
}

func rate(items int64, elapsed time.Duration) string {
	if elapsed <= 0 {
		return "0 items/s"
	}
	return human.Count(int64(float64(items)/elapsed.Seconds())) + " items/s"
}
