package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Signaled is why a context ended: the process was told to stop.
type Signaled struct{ Signal syscall.Signal }

func (s Signaled) Error() string { return "stopped by a signal: " + s.Signal.String() }

// exitCode is what shells call the end of a process by this signal.
func (s Signaled) exitCode() int { return 128 + int(s.Signal) }

// WithSignals ends the context at the first SIGINT or SIGTERM. The second one kills.
func WithSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-got:
			signal.Stop(got)
			sig, _ := s.(syscall.Signal)
			cancel(Signaled{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(context.Canceled)
	}
}

// stoppedBy tells whether err is what became of a command that a signal stopped, and
// which signal: a command that failed for another reason meanwhile has failed.
func stoppedBy(ctx context.Context, err error) (Signaled, bool) {
	var s Signaled
	if errors.As(err, &s) {
		return s, true
	}
	return s, errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &s)
}
