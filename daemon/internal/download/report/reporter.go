package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const (
	// queued is how many jobs may wait for their report. A job that finds no room comes again
	// in the dispatcher's next round.
	queued = 100
	// sendIn is how long sending a report may take.
	sendIn = time.Minute
	// firstRetry is the pause before a failed report is sent again. It doubles, up to lastRetry.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// maxTries is how many times a report is tried, over 19 hours.
	maxTries = 24
)

// Store is what a Reporter needs of a [download.Store].
type Store interface {
	Now(ctx context.Context) (time.Time, error)
	JobVersion(ctx context.Context, id int64, version int) (download.Job, error)
	Counts(ctx context.Context, job int64) (map[download.State]int, error)
	ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error
	MarkReported(ctx context.Context, job int64, tasks int) error
}

// Options say how reports are sent. Store must be given.
type Options struct {
	Store    Store
	Mail     *Mail    // nil: none are sent
	Webhook  *Webhook // nil: none is called
	Now      func() time.Time
	Log      *slog.Logger          // nil: none
	Registry prometheus.Registerer // nil: no metrics
}

// Reporter sends reports. Its methods may be called by several goroutines.
type Reporter struct {
	opt   Options
	ended chan ended
	sent  *prometheus.CounterVec

	mu    sync.Mutex
	tries map[int64]*try // of jobs that wait for their report, or whose last one failed
}

type ended struct {
	job          download.Job
	done, failed int
}

// try is the state of a job's report.
type try struct {
	underway bool
	done     int // tasks that the report covers
	failed   int
	failures int
	next     time.Time       // the earliest time of the next try
	sent     map[string]bool // recipients that got it: an address, or "" for the webhook
}

// New makes a Reporter, and registers its metrics.
func New(opt Options) *Reporter {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r := &Reporter{opt: opt, ended: make(chan ended, queued), tries: map[int64]*try{}}
	r.sent = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reports_total", Help: "Reports of jobs whose tasks have ended, by result: sent, or error (it is sent again)."}, []string{"result"})
	for _, result := range []string{"sent", "error"} {
		r.sent.WithLabelValues(result)
	}
	if opt.Registry != nil {
		opt.Registry.MustRegister(r.sent)
	}
	return r
}

// Ended notes that all tasks of a job have ended, and returns at once. It may be called repeatedly
// until the job is marked as reported, and also later by a caller that has read the job before
// that.
func (r *Reporter) Ended(job download.Job, done, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tries[job.ID]
	if t == nil || !t.underway && (t.done != done || t.failed != failed) {
		t = &try{done: done, failed: failed, sent: map[string]bool{}}
	}
	if t.underway || r.opt.Now().Before(t.next) {
		return
	}
	select {
	case r.ended <- ended{job, done, failed}:
		t.underway = true
		r.tries[job.ID] = t
	default:
	}
}

// Run sends reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.ended:
			r.settle(ctx, e, r.report(ctx, e))
		}
	}
}

// Flush sends waiting reports, and returns; Run must not be running.
func (r *Reporter) Flush(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case e := <-r.ended:
			r.settle(ctx, e, r.report(ctx, e))
		default:
			return
		}
	}
}

// settle records how a report went.
func (r *Reporter) settle(ctx context.Context, e ended, err error) {
	if ctx.Err() != nil {
		err = nil // the next process sends it
	}
	failures := r.note(e.job.ID, err)
	if failures == 0 {
		return
	}
	r.sent.WithLabelValues("error").Inc()
	if failures < maxTries {
		r.opt.Log.Error("report not sent", "job", e.job.Name, "err", err, "again_in", pauseAfter(failures))
		return
	}
	r.opt.Log.Error("report given up", "job", e.job.Name, "err", err, "tries", failures)
	if err := r.mark(ctx, e); err == nil {
		r.note(e.job.ID, nil)
	}
}

// mark records that the end of the tasks was reported, unless some were tried again meanwhile: then their end is
// to be reported, too.
func (r *Reporter) mark(ctx context.Context, e ended) error {
	if err := r.opt.Store.MarkReported(ctx, e.job.ID, e.done+e.failed); err != nil {
		return err
	}
	counts, err := r.opt.Store.Counts(ctx, e.job.ID)
	open := counts[download.Waiting] + counts[download.Ready] + counts[download.Running]
	if err == nil && (open > 0 || counts[download.Done] != e.done || counts[download.Failed] != e.failed) {
		err = r.opt.Store.MarkReported(ctx, e.job.ID, 0)
	}
	return err
}

// note ends a try, and returns how many times the report has failed: 0 if it need not be sent any more.
func (r *Reporter) note(job int64, err error) (failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || errors.Is(err, download.ErrNoJob) {
		delete(r.tries, job)
		return 0
	}
	t := r.tries[job]
	t.underway = false
	t.failures++
	t.next = r.opt.Now().Add(pauseAfter(t.failures))
	return t.failures
}

// pauseAfter is how long a report waits after so many failures.
func pauseAfter(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// report sends a report to all who have not received it, and marks it.
func (r *Reporter) report(ctx context.Context, e ended) error {
	ctx, cancel := context.WithTimeout(ctx, sendIn)
	defer cancel()
	r.mu.Lock()
	sent := r.tries[e.job.ID].sent // only Run uses it while the report is being sent
	r.mu.Unlock()
	// The dispatcher may have read the job before its last report was marked.
	if now, err := r.opt.Store.JobVersion(ctx, e.job.ID, e.job.Version); err != nil || now.Reported == e.done+e.failed {
		return err
	}
	var to []string
	if r.opt.Webhook != nil {
		to = append(to, "")
	}
	if r.opt.Mail != nil {
		to = append(to, e.job.Setting.ReportMails...)
	}
	if len(to) > 0 {
		report, err := reportOf(ctx, r.opt.Store, e.job, e.done, e.failed)
		if err != nil {
			return err
		}
		var errs []error
		for _, one := range to {
			if sent[one] {
				continue
			}
			if err := r.send(ctx, one, report); err != nil {
				errs = append(errs, err)
				continue
			}
			sent[one] = true
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		r.sent.WithLabelValues("sent").Inc()
		r.opt.Log.Info("job reported", "job", e.job.Name, "event", report.Event, "done", e.done, "failed", e.failed)
	}
	if err := r.mark(ctx, e); err != nil {
		return err
	}
	if e.done == 0 && e.failed > 0 {
		r.opt.Log.Error("job failed: none of its tasks has a result", "job", e.job.Name, "failed", e.failed)
	}
	return nil
}

// send sends a report to an address, or to the webhook.
func (r *Reporter) send(ctx context.Context, to string, report Report) error {
	if to == "" {
		if err := r.opt.Webhook.call(ctx, report); err != nil {
			return fmt.Errorf("report.webhook: %w", err)
		}
		return nil
	}
	if err := r.opt.Mail.send(ctx, to, report); err != nil {
		return fmt.Errorf("report.mail: %s to %s: %w", r.opt.Mail.Server, to, err)
	}
	return nil
}
