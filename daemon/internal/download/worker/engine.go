package worker

import (
	"context"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Engine downloads tasks. Setting.Engine of a job names the one that it wants; the runs of its scripts
// generate and parse are for [download.EngineScript].
//
// Download makes one attempt, and returns when ctx ends. It must be safe for concurrent use. It
// does not try again. An error that is a [*Failure] says more of what is to be done; any other one
// is tried again.
type Engine interface {
	Download(ctx context.Context, w Work) (Page, error)
}

// Work is one attempt at a task. The politeness that its job asks for is kept for the first
// request to the host of the task's URI; an engine that sends others asks Turn before each.
type Work struct {
	Task download.Task
	Job  download.Job // with the setting and code of the version that was leased
	// Turn waits until a further request may be sent to the host of a URI. The error is of ctx, or a [*Failure]
	// where the host has asked for a pause that is longer than Options.Bound.
	Turn func(ctx context.Context, uri string) error
	// First is for an engine whose first request comes long after its work began: it waits until
	// that one may be sent to the host of the task's URI, at once if nobody has asked the host
	// since. The error is as that of Turn.
	First func(ctx context.Context) error
	// Met says that the host of a URI has answered from an address and port: hosts of one address share
	// its pace from then on.
	Met func(uri, remote string)
	// Holds tells whether this worker is the one that calls the host of a URI. The error is of ctx.
	Holds func(ctx context.Context, uri string) (bool, error)
}

// Page is what an engine has downloaded. Its Result.Body is not used.
type Page struct {
	download.Result
	// Body is read to its end, perhaps again from the start, and then closed. nil: none.
	Body io.ReadSeekCloser
	// Crowded says that the host has too much to do, although there is a page.
	Crowded bool
}

// Failure is an attempt that failed.
type Failure struct {
	Reason    string // a sentence
	Status    int    // of HTTP, 0 if there was no answer
	Permanent bool   // another attempt would end the same
	// Crowded says that the host has too much to do: it is asked less often for a while.
	Crowded bool
	// After is before which another attempt is of no use; 0: not known. If the host has said so in an
	// answer, which the Status tells, no other task of it is begun before.
	After time.Duration
	// Early says that what the attempt needs is not there yet: the task is given back until After, and the
	// attempt does not count.
	Early bool
}

func (f *Failure) Error() string { return f.Reason }
