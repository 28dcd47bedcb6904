// Package worker downloads tasks: it holds shards of hosts, leases their ready tasks, renews the
// leases, and stores the outcomes. Only the holder of a shard calls its hosts, so that politeness
// needs no lock between workers. docs/downloader.md has the promises. The package does not decide
// which task comes when, and downloads with the engines that it is given.
//
// One goroutine, the loop, owns all that a worker knows. Calls of the store and downloads run in
// other goroutines, which pass their results to the loop.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Store is what a worker needs of a [download.Store].
type Store interface {
	Now(ctx context.Context) (time.Time, error)
	JobVersion(ctx context.Context, id int64, version int) (download.Job, error)
	ListJobs(ctx context.Context) ([]download.Job, error)
	ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error
	Leases
	download.Roles
}

// Leases are the methods needed of [download.Tasks].
type Leases interface {
	Lease(ctx context.Context, want download.Want) ([]download.Lease, error)
	Renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) (lost []string, err error)
	GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error
	Finish(ctx context.Context, l download.Lease, r download.Result, a download.Attempt) error
	Fail(ctx context.Context, l download.Lease, a download.Attempt, retry time.Time) error
}

// Options say what a worker works on. Store, Engines and Owner must be given.
type Options struct {
	Store   Store
	Engines map[string]Engine // by Setting.Engine
	// Owner differs from that of any other worker, also from earlier ones of this machine.
	Owner    string
	HostName string // of this machine, as shown in logs
	// Concurrency is how many downloads there are at once. 0: 100.
	Concurrency int
	// Window is how many tasks are leased at once, including those that wait for their host's
	// turn. 0: twice Concurrency.
	Window int
	// LeaseFor is how long leases of tasks last; they are renewed after a third of it. 0: 1 minute.
	LeaseFor time.Duration
	// ShardFor is how long shards are held; they are renewed after a third of it. 0: 30 s.
	ShardFor time.Duration
	// Lanes of jobs that are served. nil: urgency and normal.
	Lanes []download.Lane
	// Has is the needs of jobs that this worker meets, see [download.Job.Needs]: it gets no others. nil: all.
	Has []string
	// ApartAddresses: hosts that share an address do not share a pace.
	ApartAddresses bool
	// Poll is how often the worker asks for tasks while there are none. 0: 1 s.
	Poll time.Duration
	// Bound is how long a task may wait for its host while others could be leased in its place; it
	// is then given back. It is also the longest pause for which an attempt waits if a host asks
	// for one. 0: 10 s.
	Bound time.Duration
	// Patience is how long downloads may continue after the worker was stopped. 0: 20 s.
	Patience time.Duration
	// Retry is how long a failed task waits: First after the first attempt, doubling after each
	// further one up to Most, varied by up to a half. 0: 10 s and 1 h.
	RetryFirst, RetryMax time.Duration
	// Idle, if not nil, is called when there were fewer tasks than could be leased. It must return
	// quickly. In a process with a dispatcher it is the dispatcher's Wake.
	Idle     func()
	Log      *slog.Logger          // nil: none
	Registry prometheus.Registerer // nil: no metrics
}

// ErrAtOnce is the cause with which the context of a worker ends when waiting for its running tasks
// is of no use, as when the store has failed.
var ErrAtOnce = errors.New("end at once")

// Worker downloads tasks. Run it once.
type Worker struct {
	opt    Options
	wake   chan struct{}
	events chan func(*loop)
	offset atomic.Int64 // of the store's clock against ours, ns
	metrics
}

// New makes a worker, and registers its metrics.
func New(opt Options) *Worker {
	opt.Concurrency = cmp.Or(opt.Concurrency, 100)
	opt.Window = max(cmp.Or(opt.Window, 2*opt.Concurrency), opt.Concurrency)
	opt.LeaseFor = cmp.Or(opt.LeaseFor, time.Minute)
	opt.ShardFor = cmp.Or(opt.ShardFor, 30*time.Second)
	opt.Poll = cmp.Or(opt.Poll, time.Second)
	opt.Bound = cmp.Or(opt.Bound, 10*time.Second)
	opt.Patience = cmp.Or(opt.Patience, 20*time.Second)
	opt.RetryFirst = cmp.Or(opt.RetryFirst, 10*time.Second)
	opt.RetryMax = cmp.Or(opt.RetryMax, time.Hour)
	if opt.Lanes == nil {
		opt.Lanes = []download.Lane{download.Urgency, download.Normal}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.Log = opt.Log.With("worker", opt.Owner)
	return &Worker{opt: opt, wake: make(chan struct{}, 1), events: make(chan func(*loop)), metrics: newMetrics(opt.Registry)}
}

// Wake makes a running worker ask for tasks at once. It never blocks, and may be called by any
// goroutine.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. It then leases nothing more, gives back what has not begun, waits up to
// Options.Patience for running tasks (if the cause of the end is [ErrAtOnce], not at all), gives back
// the rest, and frees its shards. Errors of the store are logged and counted, and the failed
// operations are retried.
func (w *Worker) Run(ctx context.Context) { newLoop(w, ctx).run(ctx) }

// storeNow is the store's time, computed from the last answer of the store.
func (w *Worker) storeNow() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *Worker) storeFailed(call string, err error) {
	w.errors.WithLabelValues(call).Inc()
	w.opt.Log.Warn("store did not take a call", "call", call, "err", err)
}

type metrics struct {
	running  prometheus.Gauge
	queued   prometheus.Gauge
	shards   prometheus.Gauge
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	errors   *prometheus.CounterVec
}

// Outcomes of attempts.
const (
	resultDone   = "done"
	resultRetry  = "retry"
	resultFailed = "failed"
	resultGiven  = "given_back"
	resultLost   = "lost"
)

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "running_downloads", Help: "Downloads under way."}),
		queued:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "queued_tasks", Help: "Tasks that are leased and wait for their host."}),
		shards:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "held_shards", Help: "Shards of hosts that this worker holds."}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attempts_total",
			Help: "Leases of tasks by result: done, retry (failed, and will be tried again), failed, given_back (not begun, or cut off by a stop or because the shard was lost), lost (the lease ended)."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "download_duration_seconds", Help: "Time that a download takes, of good and failed ones.", Buckets: prometheus.ExponentialBuckets(0.005, 3, 10)}),
		errors:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "store_errors_total", Help: "Calls of the store that failed, by what they were for."}, []string{"call"}),
	}
	for _, result := range []string{resultDone, resultRetry, resultFailed, resultGiven, resultLost} {
		m.attempts.WithLabelValues(result)
	}
	for _, call := range []string{"lease", "renew", "shards", "settle"} {
		m.errors.WithLabelValues(call)
	}
	if registry != nil {
		registry.MustRegister(m.running, m.queued, m.shards, m.attempts, m.seconds, m.errors)
	}
	return m
}
