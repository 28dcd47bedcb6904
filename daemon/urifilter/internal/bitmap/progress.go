package bitmap

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// copyProgress is the line on a terminal that shows the progress of one copy. A daemon
// does not report its progress; then the line shows the time taken so far.
type copyProgress struct {
	mu       sync.Mutex
	w        io.Writer
	name     string
	text     string
	start    time.Time
	finish   chan struct{}
	finished sync.WaitGroup
}

func newCopyProgress(w io.Writer, name string, on bool) *copyProgress {
	if !on {
		return nil
	}
	p := &copyProgress{w: w, name: name, start: time.Now(), finish: make(chan struct{})}
	p.finished.Go(func() {
		tick := time.NewTicker(terminal.ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.finish:
				_ = terminal.Redraw(p.w, "")
				return
			case <-tick.C:
				if time.Since(p.start) > terminal.ProgressAfter {
					_ = terminal.Redraw(p.w, p.line(time.Since(p.start)))
				}
			}
		}
	})
	return p
}

func (p *copyProgress) line(elapsed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s: %s%s", p.name, p.text, elapsed.Round(time.Second))
}

// stripe implements archive.Progress.
func (p *copyProgress) stripe(stripe, of int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf("stripe %d of %d, ", stripe, of)
}

func (p *copyProgress) stop() {
	if p != nil {
		close(p.finish)
		p.finished.Wait()
	}
}
