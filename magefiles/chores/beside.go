package chores

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// begin starts lists of steps, all at once and each one after the other, beside what its caller
// does with the Repo that it returns. What a step prints comes in one piece when it ends. wait
// returns their errors.
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

// lockedWriter is a writer for several.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}
