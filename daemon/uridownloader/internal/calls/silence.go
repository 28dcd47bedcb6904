package calls

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// silence ends a call whose master neither takes nor gives anything for too long. What the command itself
// waits for, its input or the reader of its output, is no silence of the master.
type silence struct {
	limit  time.Duration
	timer  *time.Timer // runs while the master is waited for
	cancel context.CancelCauseFunc
	cause  func() error // why the call has ended too early; nil: it has not
}

// listen makes the context of a call, which ends with the silence of the master.
func (m *Master) listen(ctx context.Context) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{limit: m.timeout, cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	s.timer = time.AfterFunc(m.timeout, func() {
		cancel(fmt.Errorf("%s: silent for %s; what was asked for may be done all the same%s--timeout waits longer", m.shown, m.timeout, command.HintMark))
	})
	return ctx, s
}

// end ends the call. It returns why the call has ended too early, else err.
func (s *silence) end(err error) error {
	s.timer.Stop()
	if cause := s.cause(); cause != nil && err != nil && err != io.EOF {
		err = cause
	}
	s.cancel(context.Canceled)
	return err
}

// callBody is the body of a call. It is read when the master has taken what came before.
type callBody struct {
	io.ReadCloser
	*silence
}

func (b *callBody) Read(p []byte) (int, error) {
	b.timer.Stop()
	defer b.timer.Reset(b.limit)
	return b.ReadCloser.Read(p)
}

// answerBody is the body of an answer.
type answerBody struct {
	io.ReadCloser
	*silence
}

func (b *answerBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil {
		err = b.end(err)
	}
	return n, err
}

func (b *answerBody) Close() error {
	_ = b.end(nil)
	return b.ReadCloser.Close()
}
