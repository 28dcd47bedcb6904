package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Signaled is the cause of a context's end: a signal told the process to stop.
type Signaled struct{ Signal syscall.Signal }

func (s Signaled) Error() string { return "stopped by a signal: " + s.Signal.String() }

// exitCode is the code that shells report for a process ended by this signal.
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

// Stopped is how a command ends that shows things until Ctrl-C: without a message, with the exit
// code of the signal. It is nil if no signal has ended ctx.
func Stopped(ctx context.Context) error {
	if s, ok := errors.AsType[Signaled](context.Cause(ctx)); ok {
		return ExitCode(s.exitCode())
	}
	return nil
}

// stoppedBy reports whether err comes from a command that a signal stopped, and which signal. A
// command that meanwhile failed for another reason has failed.
func stoppedBy(ctx context.Context, err error) (Signaled, bool) {
	var s Signaled
	if errors.As(err, &s) {
		return s, true
	}
	return s, errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &s)
}
