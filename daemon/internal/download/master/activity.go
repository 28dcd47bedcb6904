package master

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

const (
	// activitySince is the period over which failed attempts are counted if the caller names none.
	activitySince = time.Minute
	// maxLogs is how many attempts one call reads, over all jobs.
	maxLogs = 10_000
	// maxOut is how many ready and running tasks one call reads, over all jobs.
	maxOut = 20_000
	// maxHosts is how many hosts of a job are named.
	maxHosts = 5
)

// Activity is a snapshot of the current activity, at one time by the store's clock, as callers see it.
type Activity struct {
	Time       time.Time      `json:"time"`
	Dispatcher string         `json:"dispatcher,omitempty"` // that hands tasks out; "" if there is none
	Jobs       []ActiveJob    `json:"jobs"`                 // by name
	Workers    []ActiveWorker `json:"workers"`              // that are alive, by name
	// Errors are from attempts that ended at Since or later but before Time, the most frequent first.
	Since  time.Time       `json:"since"`
	Errors []AttemptErrors `json:"errors"`
	// ErrorsCut says that there were more attempts than one call reads; the later ones are not counted.
	ErrorsCut bool `json:"errors_cut,omitempty"`
}

// ActiveJob is a job, and what holds it up.
type ActiveJob struct {
	Name     string         `json:"name"`
	Status   string         `json:"status"`
	Priority int            `json:"priority"`
	Tasks    map[string]int `json:"tasks"`             // by state
	Blocked  []string       `json:"blocked,omitempty"` // why tasks wait although there are workers
	// Hosts are those that hold the job up: with the most tasks handed out and not yet settled, the first ones first.
	Hosts []ActiveHost `json:"hosts,omitempty"`
}

// ActiveHost is a host of a job.
type ActiveHost struct {
	Host      string `json:"host"`
	HandedOut int    `json:"handed_out"` // tasks that are ready or running
	Failed    int    `json:"failed"`     // attempts since the time from which errors are counted
}

// ActiveWorker is a worker that is alive.
type ActiveWorker struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"` // of hosts, held by this worker
}

// AttemptErrors counts attempts of a job that failed for one reason.
type AttemptErrors struct {
	Job      string `json:"job"`
	Reason   string `json:"reason"` // its first word, such as timeout
	Attempts int    `json:"attempts"`
}

// activity reports the current activity of all processes of this store.
func (m *Master) activity(w http.ResponseWriter, r *http.Request) error {
	var since time.Time
	if text := r.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: "since " + strconv.Quote(text) + ": want a time such as 2026-11-23T12:00:00Z"}
		}
	}
	a, err := m.activityNow(r.Context(), since)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, a)
}

// activityNow looks at the activity, with the failed attempts since a time; zero: of the last activitySince.
func (m *Master) activityNow(ctx context.Context, since time.Time) (Activity, error) {
	now, err := m.Store.Now(ctx)
	if err != nil {
		return Activity{}, err
	}
	now = now.UTC()
	a := Activity{Time: now, Jobs: []ActiveJob{}, Workers: []ActiveWorker{}, Since: since, Errors: []AttemptErrors{}}
	if since.IsZero() {
		a.Since = now.Add(-activitySince)
	}
	return a, errors.Join(m.activeJobs(ctx, &a), m.activeRoles(ctx, &a))
}

var errEnoughLogs = errors.New("as many as one call reads")

// activeJobs counts tasks and failed attempts.
func (m *Master) activeJobs(ctx context.Context, a *Activity) error {
	jobs, err := m.Store.ListJobs(ctx)
	if err != nil {
		return err
	}
	can, err := download.AbilityIn(ctx, m.Store)
	if err != nil {
		return err
	}
	left, leftOut := maxLogs, maxOut
	for _, j := range jobs {
		counts, err := m.Store.Counts(ctx, j.ID)
		if errors.Is(err, download.ErrNoJob) {
			continue // it has been dropped meanwhile
		}
		if err != nil {
			return err
		}
		all := jobOf(j, counts)
		reasons, failed := map[string]int{}, map[string]int{}
		err = m.Store.ListLogs(ctx, download.Query{Job: j.ID, Since: a.Since}, func(l download.Log) error {
			if !l.Added.Before(a.Time) { // it belongs to the next call, which begins where this one ends
				return nil
			}
			if left == 0 {
				return errEnoughLogs
			}
			left--
			if l.Reason != "" {
				reasons[download.ReasonWord(l.Reason)]++
				failed[download.HostOf(l.TaskURI)]++
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnoughLogs):
			a.ErrorsCut = true
		case err != nil:
			return err
		}
		hosts, err := m.holdingUp(ctx, j, failed, &leftOut)
		if err != nil {
			return err
		}
		a.Jobs = append(a.Jobs, ActiveJob{all.Name, all.Status, all.Priority, all.Tasks, blocked(can, j, counts), hosts})
		for reason, n := range reasons {
			a.Errors = append(a.Errors, AttemptErrors{j.Name, reason, n})
		}
	}
	slices.SortFunc(a.Errors, func(x, y AttemptErrors) int {
		return cmp.Or(cmp.Compare(y.Attempts, x.Attempts), strings.Compare(x.Job, y.Job), strings.Compare(x.Reason, y.Reason))
	})
	return nil
}

// holdingUp returns the hosts that have the most tasks of a job handed out. It reads as many tasks as are left, and
// takes them off.
func (m *Master) holdingUp(ctx context.Context, j download.Job, failed map[string]int, left *int) ([]ActiveHost, error) {
	out := map[string]int{}
	for _, state := range []download.State{download.Running, download.Ready} {
		if *left == 0 {
			break
		}
		err := m.Store.ListTasks(ctx, download.Query{Job: j.ID, State: state, Limit: *left}, func(t download.Task) error {
			*left--
			if host := download.HostOf(t.URI); host != "" {
				out[host]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var hosts []ActiveHost
	for host, n := range out {
		hosts = append(hosts, ActiveHost{host, n, failed[host]})
	}
	slices.SortFunc(hosts, func(x, y ActiveHost) int {
		return cmp.Or(cmp.Compare(y.HandedOut, x.HandedOut), cmp.Compare(y.Failed, x.Failed), strings.Compare(x.Host, y.Host))
	})
	return hosts[:min(len(hosts), maxHosts)], nil
}

// activeRoles names the owners of roles that are alive.
func (m *Master) activeRoles(ctx context.Context, a *Activity) error {
	dispatchers, err := m.Store.Holders(ctx, download.DispatcherRole)
	if err != nil {
		return err
	}
	a.Dispatcher = dispatchers[download.DispatcherRole]
	shards, err := m.Store.Holders(ctx, download.ShardPrefix)
	if err != nil {
		return err
	}
	held := map[string]int{}
	for _, owner := range shards {
		held[owner]++
	}
	workers, err := m.Store.Holders(ctx, download.WorkerPrefix)
	if err != nil {
		return err
	}
	for name := range workers {
		name = strings.TrimPrefix(name, download.WorkerPrefix)
		a.Workers = append(a.Workers, ActiveWorker{name, held[name]})
	}
	slices.SortFunc(a.Workers, func(x, y ActiveWorker) int { return strings.Compare(x.Name, y.Name) })
	return nil
}
