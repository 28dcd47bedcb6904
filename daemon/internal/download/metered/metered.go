// Package metered counts and times the calls of a program to its store, for metrics. It does
// not change what the store does.
package metered

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Store is a store with measured calls: those for tasks, roles and single jobs. Lists of records
// and changes of jobs are not measured, because their time depends on their reader or their size.
type Store struct {
	download.Store
	calls *prometheus.HistogramVec
}

var _ download.Store = (*Store)(nil)

// New measures a store, and registers the metric store_request_duration_seconds{call}.
func New(store download.Store, registry prometheus.Registerer) *Store {
	s := &Store{Store: store, calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "store_request_duration_seconds",
		Help:    "Time that calls of the store take, including failed ones.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
	}, []string{"call"})}
	registry.MustRegister(s.calls)
	return s
}

// took must be deferred: it ends the measurement that its argument began.
func (s *Store) took(call string, began time.Time) {
	s.calls.WithLabelValues(call).Observe(time.Since(began).Seconds())
}

// Now implements download.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	defer s.took("now", time.Now())
	return s.Store.Now(ctx)
}

// Ready implements download.Store.
func (s *Store) Ready(ctx context.Context) error {
	defer s.took("ready", time.Now())
	return s.Store.Ready(ctx)
}

// Job implements download.Jobs.
func (s *Store) Job(ctx context.Context, name string) (download.Job, error) {
	defer s.took("job", time.Now())
	return s.Store.Job(ctx, name)
}

// JobVersion implements download.Jobs.
func (s *Store) JobVersion(ctx context.Context, id int64, version int) (download.Job, error) {
	defer s.took("job_version", time.Now())
	return s.Store.JobVersion(ctx, id, version)
}

// ListJobs implements download.Jobs.
func (s *Store) ListJobs(ctx context.Context) ([]download.Job, error) {
	defer s.took("list_jobs", time.Now())
	return s.Store.ListJobs(ctx)
}

// Counts implements download.Jobs.
func (s *Store) Counts(ctx context.Context, job int64) (map[download.State]int, error) {
	defer s.took("counts", time.Now())
	return s.Store.Counts(ctx, job)
}

// AddTasks implements download.Tasks.
func (s *Store) AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error) {
	defer s.took("add_tasks", time.Now())
	return s.Store.AddTasks(ctx, job, tasks)
}

// HandOut implements download.Tasks.
func (s *Store) HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]download.Task, error) {
	defer s.took("hand_out", time.Now())
	return s.Store.HandOut(ctx, job, n, rank, ttl)
}

// Lease implements download.Tasks.
func (s *Store) Lease(ctx context.Context, want download.Want) ([]download.Lease, error) {
	defer s.took("lease", time.Now())
	return s.Store.Lease(ctx, want)
}

// Renew implements download.Tasks.
func (s *Store) Renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) ([]string, error) {
	defer s.took("renew", time.Now())
	return s.Store.Renew(ctx, owner, leases, ttl)
}

// GiveBack implements download.Tasks.
func (s *Store) GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error {
	defer s.took("give_back", time.Now())
	return s.Store.GiveBack(ctx, l, notBefore)
}

// Finish implements download.Tasks.
func (s *Store) Finish(ctx context.Context, l download.Lease, r download.Result, a download.Attempt) error {
	defer s.took("finish", time.Now())
	return s.Store.Finish(ctx, l, r, a)
}

// Fail implements download.Tasks.
func (s *Store) Fail(ctx context.Context, l download.Lease, a download.Attempt, retry time.Time) error {
	defer s.took("fail", time.Now())
	return s.Store.Fail(ctx, l, a, retry)
}

// Retry implements download.Tasks.
func (s *Store) Retry(ctx context.Context, job int64, ids []string) (int, error) {
	defer s.took("retry", time.Now())
	return s.Store.Retry(ctx, job, ids)
}

// Sweep implements download.Tasks.
func (s *Store) Sweep(ctx context.Context, keepLogs time.Duration) (download.Swept, error) {
	defer s.took("sweep", time.Now())
	return s.Store.Sweep(ctx, keepLogs)
}

// Hold implements download.Roles.
func (s *Store) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	defer s.took("hold", time.Now())
	return s.Store.Hold(ctx, owner, names, ttl)
}

// LetGo implements download.Roles.
func (s *Store) LetGo(ctx context.Context, owner string, names []string) error {
	defer s.took("let_go", time.Now())
	return s.Store.LetGo(ctx, owner, names)
}

// Holders implements download.Roles.
func (s *Store) Holders(ctx context.Context, prefix string) (map[string]string, error) {
	defer s.took("holders", time.Now())
	return s.Store.Holders(ctx, prefix)
}
