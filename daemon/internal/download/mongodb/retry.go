package mongodb

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/mongoconn"
)

// retryEvery is between two tries of an operation that had no answer.
const retryEvery = 100 * time.Millisecond

// longer is how many times Options.Timeout an operation may take that removes or counts many
// documents.
const longer = 6

// retry does an operation until it has an answer, for Options.Timeout. unsure tells it that a try
// before had none, and may have been carried out, or still be.
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

// transient tells whether an operation may succeed if it is tried again: it had no answer, or the
// server takes no writes at present.
func transient(err error) bool {
	return mongoconn.IsUnanswered(err) || mongoconn.IsNotPrimary(err)
}

// explained names the server, and says what to do, in errors of the driver.
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

// unavailable is an error that tells of download.ErrUnavailable in its own words.
type unavailable struct{ error }

func (u *unavailable) Unwrap() []error { return []error{u.error, download.ErrUnavailable} }
