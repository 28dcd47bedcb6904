package chores

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// begin starts lists of steps and returns. The lists run at the same time, the steps of a list one
// after the other, while the caller works with the Repo that begin returns. The output of a step
// appears in one piece when the step ends. wait waits for all lists and returns their errors.
func (r Repo) begin(ctx context.Context, lists [][]step) (own Repo, wait func() error) {
	own = r
	if len(lists) > 0 {
		own.Out = &lockedWriter{out: r.Out}
	}
	errs := make([]error, len(lists))
	var running sync.WaitGroup
	for i, all := range lists {
		running.Go(func() {
			var text bytes.Buffer
			other := r
			other.Out = &lockedWriter{out: &text}
			errs[i] = other.stepsThen(ctx, all, func() {
				_, _ = text.WriteTo(own.Out)
			})
		})
	}
	return own, func() error {
		running.Wait()
		return errors.Join(errs...)
	}
}

// lockedWriter is a writer for concurrent use.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}
