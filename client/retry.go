package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Doubt says what happens to a filter call whose answer was lost; see the package comment.
type Doubt uint8

const (
	// DoubtError makes the call fail, with an error for which [InDoubt] is true. The default.
	DoubtError Doubt = iota
	// DoubtSeen repeats the call. Items that the lost answer called new are then called
	// duplicates: no item is new twice, but some may be lost, because nobody is told that
	// they are new.
	DoubtSeen
	// DoubtNew repeats the call, so that its items are remembered, and then returns all of
	// them as new: no new item is missed, but some that were seen before are new again.
	DoubtNew
)

// WithInDoubt chooses what happens to a filter call whose answer was lost. Calls that
// stream are never repeated.
func WithInDoubt(d Doubt) Option { return func(c *Client) { c.inDoubt = d } }

// Pauses between attempts, once all servers have been tried: doubled each time, and half
// of each random, so that a fleet of crawlers does not retry in step.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// certain are the codes of answers with a status of 500 or more that promise that nothing
// of the call was done.
var certain = []string{"not_ready", "overloaded", "filter_restoring", "archive_unavailable", "store_unavailable", "filter_quarantined", "insufficient_storage", "filter_full"}

// passing are those codes that another attempt, or another server, may not get.
var passing = []string{"not_ready", "overloaded", "filter_restoring", "archive_unavailable", "store_unavailable"}

// InDoubt reports for an error of this package whether the call may have been carried out
// although no answer says so. It is false for Check and the other calls that only look.
func InDoubt(err error) bool {
	var answered *Error
	var broken *ConnectionError
	switch {
	case errors.As(err, &broken): // before the other, which it may wrap
		return broken.InDoubt
	case errors.As(err, &answered):
		// The code of an error in the middle of a stream is about what comes after the part that is done.
		return !answered.looked && (answered.partly || answered.Status >= 500 && !slices.Contains(certain, answered.ErrorCode))
	}
	return false
}

// Repeatable reports for the error of a call that remembers whether the call can be repeated
// without anything being done twice, and may then succeed: no server was reached, or none was
// ready. pause is how long the daemon asks to wait first; 0: it did not say.
func Repeatable(err error) (again bool, pause time.Duration) {
	return new(call).repeatable(err)
}

// repeatable reports whether another attempt makes sense, and how long the daemon asks to
// wait before it.
func (k *call) repeatable(err error) (again bool, pause time.Duration) {
	var answered *Error
	var broken *ConnectionError
	switch {
	case errors.As(err, &answered) && slices.Contains(passing, answered.ErrorCode) && !InDoubt(err):
		return true, answered.RetryAfter
	case errors.As(err, &answered) && answered.Status < 500, !errors.As(err, &answered) && !errors.As(err, &broken):
		return false, 0
	case InDoubt(err):
		if sameServer(err) {
			pause = answered.RetryAfter
		}
		return k.idempotent || k.doubt != DoubtError, pause
	}
	return broken != nil, 0
}

// sameServer reports for the error of an attempt whether the same server must be called
// again: its store failed in the middle of the batch, and it knows best, and at first is the
// only one to know, which items it reported to nobody. Another server might call them seen.
func sameServer(err error) bool {
	var answered *Error
	return errors.As(err, &answered) && answered.ErrorCode == "outcome_unknown"
}

// tries counts the attempts of one call.
type tries struct {
	c     *Client
	k     call
	start time.Time
	pause time.Duration
	made  int
}

func (c *Client) newTries(k call) *tries {
	c.mustBeMade()
	return &tries{c: c, k: k, start: time.Now(), pause: firstPause}
}

// next reports whether another attempt should follow the one at srv that ended with err, and
// waits until it is time for it. It does not wait while some servers have not been tried,
// unless srv itself must be called again.
func (t *tries) next(ctx context.Context, srv *server, err error) bool {
	t.made++
	repeat, asked := t.k.repeatable(err)
	if !repeat || ctx.Err() != nil {
		return false
	}
	wait := max(t.pause/2+rand.N(t.pause/2), asked)
	patient := !t.k.once && time.Since(t.start)+wait <= t.c.patience
	stay := sameServer(err) && patient
	if !stay {
		t.c.servers.failed(srv, time.Now())
		if t.made < len(t.c.servers.all) {
			return true
		}
	}
	t.pause = min(2*t.pause, lastPause)
	return patient && sleep(ctx, wait)
}

// exchange sends body and reads the whole answer, so that the connection can be reused.
// It repeats the call if that is safe, or as k.doubt says, and reports whether an attempt
// before the last may have been carried out.
//
// The answer is written to space if that is large enough; the caller may reuse body and
// space when exchange returns, unless c.quick is nil.
func (c *Client) exchange(ctx context.Context, k call, body, space []byte) (answer reply, err error) {
	doubted := false
	for t := c.newTries(k); ; {
		srv := c.servers.now()
		answer, err = c.attempt(ctx, srv, k, body, space)
		if err == nil {
			answer.doubted, answer.looks = doubted, k.looks()
			return answer, nil
		}
		if !t.next(ctx, srv, err) {
			if k.looks() {
				return reply{}, looked(err)
			}
			return reply{}, keepInDoubt(err, doubted)
		}
		doubted = doubted || !k.looks() && InDoubt(err)
	}
}

// looked removes the doubt from the error of a call that only looks.
func looked(err error) error {
	var answered *Error
	var broken *ConnectionError
	switch {
	case errors.As(err, &broken):
		broken.InDoubt = false
	case errors.As(err, &answered):
		answered.looked = true
	}
	return err
}

// keepInDoubt makes err say that an attempt before the last one may have been carried out.
func keepInDoubt(err error, doubted bool) error {
	if doubted && !InDoubt(err) {
		return &ConnectionError{InDoubt: true, Err: fmt.Errorf("an attempt before got no answer; the last one: %w", err)}
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	doubted bool
	looks   bool // the call changes nothing
}

// attempt calls one server, once.
func (c *Client) attempt(ctx context.Context, srv *server, k call, body []byte, space []byte) (answer reply, err error) {
	if c.timeout > 0 && !k.untimed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout,
			fmt.Errorf("no whole answer within %s: %w", c.timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if body != nil {
		k.kind = cmp.Or(k.kind, "application/json")
	}
	u := address(srv.base, k.path, k.query)
	read := func(res *http.Response) error {
		answer.status, answer.header = res.StatusCode, res.Header
		if k.filter != "" {
			c.noteOver(k.filter, res.Header)
		}
		if answer.body, err = readAll(res, space); err != nil {
			return explain(ctx, k.method, u, fmt.Errorf("answer: %w", err), true)
		}
		return nil
	}
	if c.quick != nil {
		left, err := c.quick.roundTrip(ctx, u, k, c.token, body, func(res *http.Response) error {
			if res.StatusCode < 200 || res.StatusCode > 299 {
				return readError(k.method, u, res)
			}
			return read(res)
		})
		if err != nil && !isKnown(err) {
			err = explain(ctx, k.method, u, err, left)
		}
		return answer, err
	}
	if body != nil {
		k.body, k.length = bytes.NewReader(body), int64(len(body))
	}
	res, err := c.send(ctx, srv, k)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	return answer, read(res)
}

func isKnown(err error) bool {
	return errors.As(err, new(*Error)) || errors.As(err, new(*ConnectionError))
}

// readAll reads an answer into space, or into a new buffer if that is too small.
func readAll(res *http.Response, space []byte) ([]byte, error) {
	if res.ContentLength < 0 {
		return io.ReadAll(res.Body)
	}
	if int64(cap(space)) < res.ContentLength {
		space = make([]byte, res.ContentLength)
	}
	space = space[:res.ContentLength]
	_, err := io.ReadFull(res.Body, space)
	return space, err
}
