package filter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

const (
	// interruptGrace is how long the batch under way may take after an interrupt.
	interruptGrace = 5 * time.Second
	// The pause before a batch is sent again, unless the daemon asks for a longer one: it
	// doubles up to the last.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	// noticeAfter is how long a daemon may be unreachable before the user is told.
	noticeAfter = time.Second
)

// send sends a batch. Within patience it retries while no daemon accepts the batch: connections are
// refused, as during a restart, or the daemon is not ready or too busy. Such failures certainly
// have no effect.
func (t *transfer) send(ctx context.Context, b batch) (verdicts, error) {
	began, told := time.Now(), false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		v, err := t.attempt(ctx, b)
		asked, again := t.worthRepeating(err)
		wait := max(pause, asked)
		away := time.Since(began)
		if !again || away+wait > t.patience {
			if err == nil && told {
				fmt.Fprintf(t.notice, "urifilter: the daemon answers again, after %s\n", away.Round(time.Second/10))
			}
			return v, err
		}
		if !told && t.notice != nil && away >= noticeAfter {
			told = true
			t.progress.clear()
			fmt.Fprintf(t.notice, "urifilter: %v; waiting up to %s (--patience) for the daemon\n", err, t.patience)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return v, fmt.Errorf("%w; until then: %w", context.Cause(ctx), err)
		}
	}
}

// attempt sends a batch once. On an interrupt it lets the call end, if that is soon: then it is
// known what was remembered.
func (t *transfer) attempt(ctx context.Context, b batch) (verdicts, error) {
	inner, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), t.timeout,
		fmt.Errorf("no whole answer within %s: %w", t.timeout, context.DeadlineExceeded))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(interruptGrace):
			cancel()
		case <-inner.Done():
		}
	})
	defer stop()
	return t.judge(inner, b)
}

// worthRepeating reports whether a failure is temporary and had no effect, and how long the daemon
// asks to wait. An invalid address, or an unknown token, is never temporary.
func (t *transfer) worthRepeating(err error) (asked time.Duration, again bool) {
	var answer *client.Error
	var dns *net.DNSError
	switch {
	case err == nil, errors.As(err, &dns) && dns.IsNotFound, errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(*tls.CertificateVerificationError)):
		return 0, false
	case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
		return answer.RetryAfter, answer.ErrorCode != problem.TooManyRefusals // which is for a token that is not known
	}
	again, asked = client.Repeatable(err)
	if !t.remembers && errors.As(err, new(*client.ConnectionError)) {
		again = true // whatever the outcome was
	}
	return asked, again
}
