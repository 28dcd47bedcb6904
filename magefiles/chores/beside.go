package chores

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// begin starts steps, one after the other, beside what its caller does with the Repo that it
// returns. What each prints comes in one piece when it ends. wait returns their errors.
func (r Repo) begin(ctx context.Context, all []step) (own Repo, wait func() error) {
	own = r
	own.Out = &lockedWriter{out: r.Out}
	ended := make(chan error, 1)
	go func() {
		var text bytes.Buffer
		other := r
		other.Out = &lockedWriter{out: &text}
		ended <- other.stepsThen(ctx, all, func() {
			_, _ = text.WriteTo(own.Out)
		})
	}()
	return own, func() error { return <-ended }
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
