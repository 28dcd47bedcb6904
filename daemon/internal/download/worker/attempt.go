package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
)

const (
	// longest is how long an attempt may take, without its waits for turns, if the engine does not end
	// it itself.
	longest = 2 * download.MaxTimeout
	// A failed call of the store is retried while the lease lasts, after a pause that doubles.
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
	// backIn is how long giving back may take after the worker was stopped.
	backIn = 5 * time.Second
)

// attempt downloads a task and stores the outcome. ctx ends when the lease is lost, or the
// worker's patience has run out.
func (l *loop) attempt(ctx context.Context, t *task) string {
	began := time.Now()
	turns := &turns{l: l, task: t}
	page, failure := l.download(ctx, t, turns)
	spent := time.Since(began)
	l.seconds.Observe(spent.Seconds())
	if page.Body != nil {
		defer func() {
			if err := page.Body.Close(); err != nil {
				l.opt.Log.Warn("body not closed", "err", err)
			}
		}()
	}
	turns.end(page, failure) // others may ask the host while this is stored
	if context.Cause(ctx) != nil {
		return l.cut(ctx, t)
	}
	if failure != nil && failure.Early {
		return l.settleBack(t, l.storeNow().Add(failure.After))
	}
	a := download.Attempt{Status: page.Status, HostName: l.opt.HostName, Spent: spent}
	if failure == nil {
		return l.finish(ctx, t, page, a)
	}
	a.Status, a.Reason = failure.Status, download.CutReason(failure.Reason)
	return l.fail(ctx, t, failure, a)
}

// cut ends an attempt whose ctx has ended: it is given back, unless the lease is lost.
func (l *loop) cut(ctx context.Context, t *task) string {
	if errors.Is(context.Cause(ctx), errLost) {
		return resultLost
	}
	return l.settleBack(t, time.Time{})
}

// download has the engine download a task. If the engine panics, the attempt has failed.
func (l *loop) download(ctx context.Context, t *task, turns *turns) (page Page, failure *Failure) {
	setting := &t.job.Setting
	name := setting.Engine
	if t.script {
		name = download.EngineScript
	}
	engine := l.opt.Engines[name]
	if engine == nil {
		return Page{}, &Failure{Reason: fmt.Sprintf("engine: this worker has no engine %q", name), Permanent: true}
	}
	defer func() {
		if p := recover(); p != nil {
			l.opt.Log.Error("download panicked", "job", t.job.Name, "panic", p, "stack", string(debug.Stack()))
			page, failure = Page{}, &Failure{Reason: fmt.Sprint("panic: ", p)}
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := clock.Start(longest, func() { cancel(fmt.Errorf("attempt: longer than %s", longest)) })
	defer limit.Stop()
	work := Work{Task: t.lease.Task, Job: t.job, Turn: turns.further, First: turns.first, Met: turns.met, Holds: turns.holds, Wants: turns.wants}
	page, err := engine.Download(ctx, work.Pausing(limit))
	return page, FailureOf(err)
}

// finish stores a page.
func (l *loop) finish(ctx context.Context, t *task, page Page, a download.Attempt) string {
	err := l.settle(ctx, func(ctx context.Context) error {
		r := page.Result
		r.Body = nil
		if page.Body != nil {
			if _, err := page.Body.Seek(0, io.SeekStart); err != nil {
				return err
			}
			r.Body = page.Body
		}
		return l.opt.Store.Finish(ctx, t.lease, r, a)
	})
	return l.settled(ctx, t, err, resultDone)
}

// fail stores a failed attempt. The task is retried unless a retry is useless, or this was the last attempt.
func (l *loop) fail(ctx context.Context, t *task, f *Failure, a download.Attempt) string {
	n := t.lease.Task.Attempts
	var retry time.Time
	result := resultFailed
	if !f.Permanent && n < max(1, t.job.Setting.MaxAttempts) {
		retry = l.storeNow().Add(max(backoff(n, l.opt.RetryFirst, l.opt.RetryMax), min(f.After, maxAfter)))
		result = resultRetry
	}
	err := l.settle(ctx, func(ctx context.Context) error { return l.opt.Store.Fail(ctx, t.lease, a, retry) })
	return l.settled(ctx, t, err, result)
}

// backoff is how long a task waits after its nth attempt.
func backoff(n int, first, limit time.Duration) time.Duration {
	d := first
	for range n - 1 {
		if d *= 2; d >= limit || d <= 0 {
			d = limit
			break
		}
	}
	d = min(d, limit)
	return min(limit, d/2+rand.N(d+1)) // so that tasks that failed together are not retried together
}

// settled returns what became of a task after an attempt to settle it.
func (l *loop) settled(ctx context.Context, t *task, err error, result string) string {
	switch {
	case err == nil:
		return result
	case errors.Is(err, download.ErrLeaseLost):
		return resultLost
	}
	return l.cut(ctx, t)
}

// settle calls the store until it takes the call, the lease is lost, or ctx ends.
func (l *loop) settle(ctx context.Context, call func(context.Context) error) error {
	pause := firstPause
	for {
		err := call(ctx)
		if err == nil || errors.Is(err, download.ErrLeaseLost) || ctx.Err() != nil {
			return err
		}
		l.storeFailed("settle", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// settleBack gives a task back. If the store refuses, the lease expires.
func (l *loop) settleBack(t *task, notBefore time.Time) string {
	ctx, cancel := context.WithTimeout(l.store, backIn)
	defer cancel()
	err := l.settle(ctx, func(ctx context.Context) error { return l.opt.Store.GiveBack(ctx, t.lease, notBefore) })
	if err != nil {
		return resultLost
	}
	return resultGiven
}
