package mongodb

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/mongoconn"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// retryEvery is the pause before an operation without an answer is retried.
const retryEvery = 100 * time.Millisecond

// longer is the timeout of an operation that removes or counts many documents, as a multiple
// of Options.Timeout.
const longer = 6

// retry repeats an operation until it has an answer, for Options.Timeout. unsure tells the
// operation that an earlier try had no answer, and may have been carried out, or still be.
func (s *Store) retry(ctx context.Context, do func(ctx context.Context, unsure bool) error) error {
	return s.retryWithin(ctx, 1, do)
}

func (s *Store) retryWithin(ctx context.Context, times int, do func(ctx context.Context, unsure bool) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	begun := time.Now()
	unsure := false
	for {
		once, cancel := context.WithTimeout(ctx, time.Duration(times)*s.opt.Timeout)
		err := do(once, unsure)
		cancel()
		if err == nil || !transient(err) || ctx.Err() != nil || time.Since(begun) >= s.opt.Timeout {
			return s.explained(ctx, err)
		}
		unsure = true
		timer := time.NewTimer(retryEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.explained(ctx, err)
		}
	}
}

// transient reports whether an operation may succeed if it is retried: it had no answer, or the
// server takes no writes at present.
func transient(err error) bool {
	return mongoconn.IsUnanswered(err) || mongoconn.IsNotPrimary(err)
}

// explained adds the server's name and advice to errors of the driver.
func (s *Store) explained(ctx context.Context, err error) error {
	explained, changed := mongoconn.Explained(ctx, err)
	if ctx.Err() == nil && (errors.Is(explained, mongoconn.ErrUnreachable) || errors.Is(explained, mongoconn.ErrNoPrimary)) {
		return &unavailable{s.conn.Named(explained)}
	}
	if changed && ctx.Err() == nil || !changed && isServer(err) {
		return s.conn.Named(explained)
	}
	return explained
}

// unavailable is an error that wraps download.ErrUnavailable but keeps its text.
type unavailable struct{ error }

func (u *unavailable) Unwrap() []error { return []error{u.error, download.ErrUnavailable} }
