package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signaled is why a context ended: the process was told to stop.
type signaled struct{ sig syscall.Signal }

func (s signaled) Error() string { return "stopped by a signal: " + s.sig.String() }

// exitCode is what shells call the end of a process by this signal.
func (s signaled) exitCode() int { return 128 + int(s.sig) }

// withSignals ends the context at the first SIGINT or SIGTERM. The second one kills.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-got:
			signal.Stop(got)
			sig, _ := s.(syscall.Signal)
			cancel(signaled{sig})
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
func stoppedBy(ctx context.Context, err error) (signaled, bool) {
	var s signaled
	if errors.As(err, &s) {
		return s, true
	}
	return s, errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &s)
}
