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
	// queued is how many jobs wait for their report. What finds no place comes again with the
	// dispatcher's next round.
	queued = 100
	// sendIn is how long a report may take.
	sendIn = time.Minute
	// firstRetry is after how long a report that failed is sent again. It doubles, to lastRetry.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// maxTries is how often it is tried, over 19 hours.
	maxTries = 24
)

// Store is what a Reporter needs of a [download.Store].
type Store interface {
	Now(ctx context.Context) (time.Time, error)
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

	mu     sync.Mutex
	tries  map[int64]*try // of jobs that wait for their report, or whose last one failed
	marked map[int64]int  // of how many tasks the last report of a job was that has been marked
}

type ended struct {
	job          download.Job
	done, failed int
}

// try is what is known of a job's report.
type try struct {
	underway bool
	tasks    int // that it is of
	failures int
	next     time.Time       // not before
	sent     map[string]bool // to whom: an address, or "" for the webhook
}

// New makes a Reporter, and registers its metrics.
func New(opt Options) *Reporter {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r := &Reporter{opt: opt, ended: make(chan ended, queued), tries: map[int64]*try{}, marked: map[int64]int{}}
	r.sent = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "reports_total", Help: "Reports of jobs whose tasks have ended, by result: sent, or error (it is sent again)."}, []string{"result"})
	for _, result := range []string{"sent", "error"} {
		r.sent.WithLabelValues(result)
	}
	if opt.Registry != nil {
		opt.Registry.MustRegister(r.sent)
	}
	return r
}

// Ended takes note of a job all of whose tasks have ended, and returns at once. It may be called
// again and again until the job is marked as reported, and by a caller who has read the job before
// that.
func (r *Reporter) Ended(job download.Job, done, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tasks, ok := r.marked[job.ID]; ok && tasks == done+failed {
		return
	}
	t := r.tries[job.ID]
	if t == nil || !t.underway && t.tasks != done+failed {
		t = &try{tasks: done + failed, sent: map[string]bool{}}
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
			r.settle(ctx, e.job, r.report(ctx, e))
		}
	}
}

// Flush sends what waits, and returns; Run must not be running.
func (r *Reporter) Flush(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case e := <-r.ended:
			r.settle(ctx, e.job, r.report(ctx, e))
		default:
			return
		}
	}
}

// settle notes how a report went.
func (r *Reporter) settle(ctx context.Context, job download.Job, err error) {
	if ctx.Err() != nil {
		err = nil // the next process sends it
	}
	failures, tasks := r.note(job.ID, err)
	if failures == 0 {
		return
	}
	r.sent.WithLabelValues("error").Inc()
	if failures < maxTries {
		r.opt.Log.Error("report not sent", "job", job.Name, "err", err, "again_in", pauseAfter(failures))
		return
	}
	r.opt.Log.Error("report given up", "job", job.Name, "err", err, "tries", failures)
	if err := r.mark(ctx, job.ID, tasks); err == nil {
		r.note(job.ID, nil)
	}
}

// mark keeps that the end of so many tasks was reported.
func (r *Reporter) mark(ctx context.Context, job int64, tasks int) error {
	if err := r.opt.Store.MarkReported(ctx, job, tasks); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked[job] = tasks
	return nil
}

// note ends a try, and returns how often the report of so many tasks has failed: 0 if it need not be
// sent any more.
func (r *Reporter) note(job int64, err error) (failures, tasks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || errors.Is(err, download.ErrNoJob) {
		delete(r.tries, job)
		return 0, 0
	}
	t := r.tries[job]
	t.underway = false
	t.failures++
	t.next = r.opt.Now().Add(pauseAfter(t.failures))
	return t.failures, t.tasks
}

// pauseAfter is how long a report waits that has failed so often.
func pauseAfter(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}

// report sends one to all that have not got it, and marks it.
func (r *Reporter) report(ctx context.Context, e ended) error {
	ctx, cancel := context.WithTimeout(ctx, sendIn)
	defer cancel()
	r.mu.Lock()
	sent := r.tries[e.job.ID].sent // which none but Run uses, as long as it is under way
	r.mu.Unlock()
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
	if err := r.mark(ctx, e.job.ID, e.done+e.failed); err != nil {
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
