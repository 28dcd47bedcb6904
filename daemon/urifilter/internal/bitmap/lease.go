package bitmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// leaseWait is how long a writeback waits for another one of the same filter: a killed one
// holds its lease for a minute.
const leaseWait = 10 * time.Minute

// writeback writes a filter back. If the flags allow it, it first waits for other writebacks
// of the filter.
func (w *work) writeback(name string, p archive.Progress) (client.CopyResult, error) {
	until := time.Now().Add(w.flags.wait)
	for told := false; ; {
		c, err := w.store.writeback(w.ctx, name, p)
		if !leaseHeld(err) || w.flags.yield || !time.Now().Before(until) {
			return c, err
		}
		if !told && !w.flags.quiet {
			told = true
			if terminal.Is(w.err) {
				_ = terminal.Redraw(w.err, "")
			}
			fmt.Fprintf(w.err, "waits up to %s: %v\n", w.flags.wait, err)
		}
		select {
		case <-w.ctx.Done():
			return c, err
		case <-time.After(500*time.Millisecond + rand.N(time.Second)):
		}
	}
}

// leaseHeld reports whether another process is writing the filter back.
func leaseHeld(err error) bool {
	var answer *client.Error
	return errors.As(err, new(*archive.LeaseError)) || errors.As(err, &answer) && answer.ErrorCode == problem.LeaseHeld
}
