package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
)

// Engine downloads tasks. Setting.Engine names the engine of a job; runs of its scripts generate
// and parse always use [download.EngineScript].
//
// Download makes one attempt, and returns when ctx ends. It must be safe for concurrent use. It
// does not retry. An error that is a [*Failure] says what is to be done; any other error leads to a
// retry.
type Engine interface {
	Download(ctx context.Context, w Work) (Page, error)
}

// Work is one attempt at a task. The worker has waited for the turn of the first request to
// the host of the task's URI; before each further request the engine must call Turn.
type Work struct {
	Task download.Task
	Job  download.Job // with the setting and code of the version that was leased
	// Turn waits until a further request may be sent to the host of a URI. The error is that of
	// ctx, or a [*Failure] if the host has asked for a pause longer than Options.Bound.
	Turn func(ctx context.Context, uri string) error
	// First is for an engine whose first request comes long after its work began. It waits until
	// that request may be sent to the host of the task's URI, and returns at once if nobody has
	// called the host since. Errors are as for Turn.
	First func(ctx context.Context) error
	// Met reports the address and port from which the host of a URI has answered: hosts of one
	// address share its pace from then on.
	Met func(uri, remote string)
	// Wants tells the Crawl-delay of the origin of a URI, 0 for none: jobs that obey robots.txt wait at least as long
	// between two requests, up to two minutes.
	Wants func(ctx context.Context, uri string, delay time.Duration)
	// Holds reports whether this worker is the one that calls the host of a URI. The error is that of ctx.
	Holds func(ctx context.Context, uri string) (bool, error)
}

// Pausing returns w with a clock that stands while Turn and First wait.
func (w Work) Pausing(c *clock.Clock) Work {
	turn, first := w.Turn, w.First
	w.Turn = func(ctx context.Context, uri string) error {
		defer c.Pause()()
		return turn(ctx, uri)
	}
	w.First = func(ctx context.Context) error {
		defer c.Pause()()
		return first(ctx)
	}
	return w
}

// Page is what an engine has downloaded. Its Result.Body is not used.
type Page struct {
	download.Result
	// Body is read to its end, perhaps again from the start, and then closed. nil: none.
	Body io.ReadSeekCloser
	// Crowded says that the host is overloaded, although there is a page.
	Crowded bool
}

// Failure is an attempt that failed.
type Failure struct {
	Reason    string // a sentence
	Status    int    // of HTTP, 0 if there was no answer
	Permanent bool   // another attempt would end the same
	// Crowded says that the host is overloaded or away: it is called less often for a while.
	Crowded bool
	// After is the time to wait before another attempt makes sense; 0: not known. If the host has
	// asked for it in an answer, as Status shows, no other task of the host begins before.
	After time.Duration
	Host  string // that Crowded and After are about, such as one to which a redirect has led; "": that of the task
	// Early says that something the attempt needs does not exist yet, or cannot be had at present: the task is
	// given back until After, and the attempt does not count.
	Early bool
}

func (f *Failure) Error() string { return f.Reason }

// UnableFor is the pause before a task is retried if an engine lacks what it needs on this machine.
const UnableFor = time.Hour

// Failed returns a failure of an attempt. The word names its kind.
func Failed(word, format string, args ...any) *Failure {
	return &Failure{Reason: word + ": " + fmt.Sprintf(format, args...)}
}

// FailureOf returns what an error of an engine means to the worker: one that is no [*Failure] leads
// to a retry. It is nil if err is.
func FailureOf(err error) *Failure {
	f, own := errors.AsType[*Failure](err)
	if err != nil && !own {
		f = &Failure{Reason: err.Error()}
	}
	return f
}

// Ability says why an engine cannot work on this machine. It is safe for concurrent use; the zero value is able.
type Ability struct{ lack atomic.Pointer[error] }

// Unable returns what was found last; nil: the engine can work.
func (a *Ability) Unable() error {
	if lack := a.lack.Load(); lack != nil {
		return *lack
	}
	return nil
}

// Found keeps what a look at the machine has found, and returns it.
func (a *Ability) Found(err error) error {
	a.lack.Store(&err)
	return err
}
