// Package fleet runs steps on many hosts: it connects to all of them, checks and locks
// all, and only then changes one after the other, so that a fault shows on one host
// and not on all. It does not know what the steps do, and prints nothing: events go
// to a report.Sink.
//
// Distant hosts are asked for many things at once: see glance, and step.Early. What a step is told in
// its turn is never older than the last change to its host.
//
// A run ends with one of these exit codes, which scripts may rely on:
//
//	0    done; or a plan was made
//	1    a step failed
//	2    the settings or the call were wrong; nothing was done
//	3    hosts could not be reached, and all others are done; or one was lost in the middle
//	4    another run holds the lock of a host; nothing was done
//	5    a plan that was asked for it by ExitCode has changes to make
//	130  interrupted
package fleet

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Phase is a part of a run that is finished on its hosts before the next one begins.
type Phase struct {
	// Name is for display: "redis".
	Name string
	// Jobs are for different hosts.
	Jobs []Job
	// Rolling phases begin with the canary and go on in batches, so that most hosts
	// serve while some are changed. Others change all hosts at once.
	Rolling bool
	// Required phases have hosts that later phases depend on: the run does not
	// begin if one of them is unreachable, unless Options.KeepGoing is set.
	Required bool
}

// Job is what a phase does to a host.
type Job struct {
	// Host is the name in the inventory. Jobs of several phases may be for one host;
	// they share the connection, the lock and the result.
	Host string
	// Connect opens the connection; that of the host's first job is used. An error that
	// is a *host.ConnectionError makes the host unreachable, any other one makes it fail.
	Connect func(ctx context.Context) (host.Host, io.Closer, error)
	// Preflight checks must pass on all hosts before any is changed. If several checks
	// of a host have the same name, the first one is used.
	Preflight []step.Step
	// Steps are asked for when the job begins, so that they may build on what earlier
	// phases brought about, and in a plan too.
	Steps func(ctx context.Context, h host.Host) ([]step.Step, error)
	// Late steps watch a host for a while. Those of the canary run after its Steps, before
	// the other hosts of the phase begin; those of the other hosts run once all of them have
	// finished their Steps. If a late step fails, Steps are undone too.
	Late []step.Step
}

// Options of a run.
type Options struct {
	// Target is the command: "deploy". Runs are resumed by target, and locks name it.
	Target string
	// ID of the run; "": derived from the time.
	ID string
	// Who runs it, for the lock's refusal: "alice@laptop".
	Who string

	// Plan is a dry run: it changes nothing, takes no lock and is not saved.
	Plan bool
	// ExitCode: a plan that finds changes ends with CodeChanges.
	ExitCode bool
	// NoLock is for read-only targets.
	NoLock bool

	// Canary is how many hosts of a rolling phase go first, on their own; 0: none do.
	Canary int
	// Batch is how many of its other hosts go at a time: "3", or "25%" of the phase's
	// hosts, one at least; "": all.
	Batch string
	// Parallel is how many hosts are worked on at once; 0: 8.
	Parallel int
	// KeepGoing continues after a batch or phase in which a host failed, but not after a
	// failed canary.
	KeepGoing bool

	// Runs is the folder for the results of runs, for Resume; "": none are saved.
	Runs string
	// Resume skips the hosts that the last run of Target completed, and those
	// that were not part of it.
	Resume bool
	// Inputs is a fingerprint of what is rolled out. If it differs from that of the run that is
	// resumed, all hosts are done again, so that they end alike; "": not compared.
	Inputs string
	// Again is the command that was given, and GoOn the one that goes on with the rest, for
	// the summary of a run that is not done: "go tool mage deploy -resume". GoOn is told
	// once a host has been worked on; "": Again is.
	Again, GoOn string

	// Grace is how long the run may last after ctx has ended: for undoing, for giving
	// back the locks, and for the summary. 0: 4 s, less than the 5 s that mage gives.
	Grace time.Duration
	// UndoTime bounds the undoing on a host. 0: 3 min.
	UndoTime time.Duration

	// Sink is told what happens; nil: nobody is.
	Sink report.Sink
	// Masker hides secrets in all that Sink is told and in what is kept; nil: none.
	Masker *secret.Masker
}

// Result is the outcome of a step on a host.
type Result struct {
	Phase, Host, Step string
	Status            report.Status
	Detail            string // what was, or would be, changed
	Diff              string
	Err               error
	Took              time.Duration

	at   int  // the phase in which it came
	undo bool // it belongs to the undoing after a failure
}

// Summary is the outcome of a run.
type Summary struct {
	report.Summary
	// ID of the run.
	ID string
	// Results in the order in which steps ended.
	Results []Result
}

// Run runs phases one after the other; in a plan, which changes nothing, each host does so for itself. It returns when everything it started has
// ended. The error is an *Error with the exit code, or nil if that is 0.
//
// Nothing is changed before all hosts are connected, checked and locked. A host that
// cannot be reached is left out. A failing host never disturbs those beside it, but
// after a canary or a batch with a failure the rest is not started. When a step fails,
// or ctx ends, those steps of the job that were begun are undone, last first. Late steps of
// hosts whose other steps are done come to their end whatever becomes of other hosts.
func Run(ctx context.Context, phases []Phase, o Options) (Summary, error) {
	r, err := prepare(phases, o)
	if err != nil {
		return Summary{}, err
	}
	if err := r.resume(); err != nil {
		return Summary{}, err
	}
	r.begin()
	defer r.timekeeper(ctx)()
	switch {
	case !r.open(ctx):
	case o.Plan:
		r.plan(ctx)
	default:
		for _, p := range r.phases {
			r.phase(ctx, p)
		}
	}
	r.close(ctx)
	return r.end(ctx)
}

// interrupted reports whether err was caused by an interruption of the run.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// Exit codes; the package comment says what they mean.
const (
	CodeDone        = 0
	CodeFailed      = 1
	CodeUsage       = 2
	CodeUnreachable = 3
	CodeLocked      = 4
	CodeChanges     = 5
	CodeInterrupted = 130
)

// Error reports a run that did not complete. Its text is short: the report
// has the details.
type Error struct {
	Code int
	Err  error
	// Told is set if the report has already said this.
	Told bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage returns an error for a wrong setting or call.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeUsage, Err: err}
}

// Code returns the exit code for err: the code of an *Error, 130 if a context was
// cancelled, 1 for other errors, 0 for nil.
func Code(err error) int {
	var coded *Error
	switch {
	case err == nil:
		return CodeDone
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, context.Canceled):
		return CodeInterrupted
	}
	return CodeFailed
}
