package bitmap

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
)

// copyProgress is the line on a terminal that shows the progress of one copy. A daemon
// does not report its progress; then the line shows the time taken so far.
type copyProgress struct {
	mu       sync.Mutex
	name     string
	text     string
	start    time.Time
	cancel   context.CancelFunc
	finished sync.WaitGroup
}

// newCopyProgress shows the line until stop; nil: on is false, or w is no terminal.
func newCopyProgress(w io.Writer, name string, on bool) *copyProgress {
	shown := terminal.NewProgress(w, on)
	if shown == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &copyProgress{name: name, start: time.Now(), cancel: cancel}
	p.finished.Go(func() {
		for range repeat.Every(ctx, time.Second/10) {
			shown.Show("%s", p.line(time.Since(p.start)))
		}
		shown.Clear()
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
		p.cancel()
		p.finished.Wait()
	}
}
