// Package dispatch hands tasks out to workers. It sweeps the store, makes tasks of the runs of generate that
// are due, and then makes waiting tasks ready, by lane and priority and within bounds. docs/downloader.md has
// the arithmetic. It keeps no state that matters: it counts in the store each time, so that any dispatcher
// can continue where another stopped. It downloads nothing, and no worker has to know it.
package dispatch

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Role is the name that a dispatcher holds while it works, see [download.Roles].
const Role = download.DispatcherRole

const (
	// roleFor is how long the role is held. A dispatcher that is killed is replaced after that
	// time; a standby asks for the role three times within it.
	roleFor = 30 * time.Second
	// shortest is the least time between two hand-outs, however often Wake is called. It is also
	// the first pause before the next look at jobs whose tasks found no room; that pause doubles
	// up to Look while nothing is handed out.
	shortest = 20 * time.Millisecond
	first    = time.Second
	// letGoIn bounds the release of the role at the end.
	letGoIn = 5 * time.Second
)

// Store is what a dispatcher needs of a [download.Store].
type Store interface {
	ListJobs(ctx context.Context) ([]download.Job, error)
	Counts(ctx context.Context, job int64) (map[download.State]int, error)
	HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]download.Task, error)
	Sweep(ctx context.Context, keepLogs time.Duration) (download.Swept, error)
	Now(ctx context.Context) (time.Time, error)
	AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error)
	ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error
	Roles
}

// Roles are the methods needed of [download.Roles].
type Roles interface {
	Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error)
	LetGo(ctx context.Context, owner string, names []string) error
	Holders(ctx context.Context, prefix string) (map[string]string, error)
}

// Options of a dispatcher. Store and Owner are required.
type Options struct {
	Store Store
	Owner string // different from that of any other dispatcher
	// Every is the longest time between two looks at the jobs. 0: 5 minutes.
	Every time.Duration
	// Look is the longest time between two looks at the jobs if nobody calls Wake, as when URIs
	// come in through another process. 0, or more than Every: Every.
	Look time.Duration
	// SweepEvery is the time between two sweeps, and so bounds how late a dead worker is
	// noticed. 0: 30 s, or Every if that is less.
	SweepEvery time.Duration
	// MaxReady is how many tasks of a lane may be ready, besides one of each job. 0: 7,000.
	MaxReady int
	// ReadyFor is how long a task stays ready if no worker leases it; it then waits again. 0: 15 minutes.
	// If it is less than a low priority can wait (9 times [PriorityStep]), such a task waits longer.
	ReadyFor time.Duration
	KeepLogs time.Duration // of attempts; 0: without limit
	// HandedOut, if not nil, is called after tasks were made ready, so that workers in this process
	// need not poll. It must return quickly.
	HandedOut func()
	// Ended, if not nil, is called in each round for each job that is on and all of whose tasks
	// have ended, until that job is marked as reported. It must return quickly.
	Ended    func(job download.Job, done, failed int)
	Log      *slog.Logger          // nil: none
	Registry prometheus.Registerer // nil: no metrics
}

// Dispatcher hands tasks out. Several may run on one store: one works, the others stand by.
type Dispatcher struct {
	opt  Options
	wake chan struct{}
	runs map[int64]string // by job, the URI of the last run of generate that was made here; only Run uses it
	metrics
}

// Report says what one round has done.
type Report struct {
	// Held reports whether this dispatcher had the role. If not, it did nothing.
	Held      bool
	Swept     download.Swept
	HandedOut int
	// Waiting, Ready and Running count the tasks of jobs that are on, after the round.
	Waiting, Ready, Running int
	next                    time.Duration // until a run of generate is due; 0 for none
}

// New makes a dispatcher, and registers its metrics.
func New(opt Options) *Dispatcher {
	opt.Every = cmp.Or(opt.Every, 5*time.Minute)
	opt.Look = min(cmp.Or(opt.Look, opt.Every), opt.Every)
	opt.SweepEvery = cmp.Or(opt.SweepEvery, min(opt.Every, 30*time.Second))
	opt.MaxReady = cmp.Or(opt.MaxReady, 7000)
	opt.ReadyFor = cmp.Or(opt.ReadyFor, 15*time.Minute)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Dispatcher{opt: opt, wake: make(chan struct{}, 1), metrics: newMetrics(opt.Registry)}
}

// Wake makes a running dispatcher look at the jobs at once. It never blocks, and may be called by
// any goroutine.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Once does one round, for a crontab, and frees the role. It returns an error of the store,
// or the joined errors of single jobs, which do not stop the others.
func (d *Dispatcher) Once(ctx context.Context) (Report, error) {
	held, err := d.hold(ctx)
	if err != nil || !held {
		return Report{}, err
	}
	defer d.letGo(ctx)
	return d.round(ctx, true)
}

// Run works, or stands by, until ctx ends, and then frees the role. Errors of the store are logged and
// counted, and the failed operations are retried.
func (d *Dispatcher) Run(ctx context.Context) {
	var (
		held        bool
		mine        bool      // in the store, as far as its last answer goes
		sweep, look time.Time // when to
		pause       = first
	)
	defer func() {
		if mine {
			d.letGo(ctx)
		}
	}()
	woken := false
	for ctx.Err() == nil {
		had := held
		var err error
		if held, err = d.hold(ctx); err != nil {
			held = false
			d.failed(ctx, err)
		} else {
			mine = held
		}
		if held != had {
			d.opt.Log.Info("dispatcher changed", "working", held)
			d.working.Set(map[bool]float64{true: 1}[held])
			sweep, look = time.Time{}, time.Time{}
		}
		wait := roleFor / 3
		if held {
			now := time.Now()
			sweeping := !now.Before(sweep)
			if sweeping || woken || !now.Before(look) {
				report, err := d.round(ctx, sweeping)
				if err != nil {
					d.failed(ctx, err)
				}
				if sweeping && err == nil {
					sweep = now.Add(d.opt.SweepEvery)
				} else if sweeping {
					sweep = now.Add(min(first, d.opt.SweepEvery))
				}
				switch {
				case report.HandedOut > 0 || woken:
					pause = first
				default:
					pause *= 2
				}
				pause = min(pause, d.opt.Look)
				look = now.Add(pause)
				if err == nil && report.Waiting == 0 {
					look = now.Add(d.opt.Look)
				}
				if due := now.Add(report.next); report.next > 0 && due.Before(look) {
					look = due
				}
			}
			wait = min(wait, time.Until(sweep), time.Until(look))
		}
		woken = d.pause(ctx, wait, held)
	}
}

// pause waits until Wake is called or the time is over, and reports which. A standby is not woken.
func (d *Dispatcher) pause(ctx context.Context, wait time.Duration, held bool) bool {
	timer := time.NewTimer(max(wait, shortest))
	defer timer.Stop()
	wake := d.wake
	if !held {
		wake = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-wake:
	}
	// Tasks that come in until then are handed out together with it.
	short := time.NewTimer(shortest)
	defer short.Stop()
	select {
	case <-ctx.Done():
	case <-short.C:
	}
	return true
}

func (d *Dispatcher) hold(ctx context.Context) (bool, error) {
	held, err := d.opt.Store.Hold(ctx, d.opt.Owner, []string{Role}, roleFor)
	return len(held) == 1, err
}

func (d *Dispatcher) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoIn)
	defer cancel()
	if err := d.opt.Store.LetGo(ctx, d.opt.Owner, []string{Role}); err != nil {
		d.opt.Log.Warn("dispatcher's role not freed: it ends by itself", "err", err)
	}
	d.working.Set(0)
}

func (d *Dispatcher) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		d.errors.Inc()
		d.opt.Log.Error("tasks not handed out", "err", err)
	}
}

type metrics struct {
	working   prometheus.Gauge
	handedOut *prometheus.CounterVec
	swept     *prometheus.CounterVec
	tasks     *prometheus.GaugeVec
	seconds   prometheus.Histogram
	errors    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
		working:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "dispatcher_working", Help: "1 while this dispatcher hands tasks out, 0 while it stands by."}),
		handedOut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "handed_out_tasks_total", Help: "Tasks that were made ready, by lane."}, []string{"lane"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "swept_tasks_total",
			Help: "Tasks that sweeps found: unclaimed (no worker leased them), abandoned (the worker did not renew the lease), failed (of the abandoned, too often)."}, []string{"state"}),
		tasks:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "open_tasks", Help: "Tasks of running jobs, by state, after the last round."}, []string{"state"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dispatch_duration_seconds", Help: "Time that a round takes.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		errors:  prometheus.NewCounter(prometheus.CounterOpts{Name: "dispatch_errors_total", Help: "Rounds with an error."}),
	}
	for _, lane := range download.Lanes() {
		m.handedOut.WithLabelValues(string(lane))
	}
	for _, state := range []string{"unclaimed", "abandoned", "failed"} {
		m.swept.WithLabelValues(state)
	}
	if registry != nil {
		registry.MustRegister(m.working, m.handedOut, m.swept, m.tasks, m.seconds, m.errors)
	}
	return m
}

func (m *metrics) sweptOne(s download.Swept) {
	m.swept.WithLabelValues("unclaimed").Add(float64(s.Unclaimed))
	m.swept.WithLabelValues("abandoned").Add(float64(s.Abandoned))
	m.swept.WithLabelValues("failed").Add(float64(s.Failed))
}

func (m *metrics) roundDone(r Report, spent time.Duration) {
	m.tasks.WithLabelValues(string(download.Waiting)).Set(float64(r.Waiting))
	m.tasks.WithLabelValues(string(download.Ready)).Set(float64(r.Ready))
	m.tasks.WithLabelValues(string(download.Running)).Set(float64(r.Running))
	m.seconds.Observe(spent.Seconds())
}
