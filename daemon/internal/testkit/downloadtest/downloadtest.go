// Package downloadtest is the conformance suite for stores of package download: it tests the promises
// of the contract on the store that a store's own tests open. It knows no particular store.
package downloadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest/victim"
)

// Clock is the clock of a store under test. It stands still until it is advanced.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock begins at some time of 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)} }

// Now is safe for concurrent use.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Options say how a store is tried.
type Options struct {
	// New makes an empty place for a store with that clock, and returns a function that opens the
	// store there. It may be called repeatedly, each time after the previous store was closed.
	New func(t *testing.T, clock *Clock) (open func() download.Store)
	// Steps is how many operations the histories have that are compared with the model. 0: 3,000.
	Steps int
	// Part divides the numbers of tasks, for a server that scans all of them for each query, and
	// under the race detector: a divisor of 40. 0: 1.
	Part int
	// LargeBody is a size in bytes at which the store keeps bodies in a different way from small ones.
	LargeBody int
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	if o.Steps == 0 {
		o.Steps = 3000
	}
	for _, test := range []struct {
		name string
		run  func(*rig)
	}{
		{"jobs", jobs}, {"versions", versions}, {"jobs many at once", jobsAtOnce}, {"refusals", refusals},
		{"unknown things", unknown}, {"drop", drop}, {"drop under way", dropUnderWay}, {"drop by sweep", dropBySweep},
		{"add tasks", addTasks}, {"add tasks many at once", addTasksAtOnce}, {"hand out", handOut}, {"hand out in turn", handOutInTurn}, {"hand out of many hosts", handOutOfMany}, {"lease", lease}, {"lease in turn", leaseInTurn},
		{"lease of lanes and shards", leaseChoice}, {"lease of engines", leaseNeeds}, {"off", off},
		{"renew", renew}, {"give back", giveBack}, {"fences", fences}, {"lease that ran out", ranOut},
		{"finish", finish}, {"finish twice at once", finishAtOnce}, {"bodies", bodies}, {"body that breaks off", brokenBody},
		{"fail", fail}, {"retry", retry}, {"reasons", reasons}, {"sweep", sweep}, {"abandoned", abandoned}, {"sweep of logs", sweepLogs}, {"lists", lists}, {"roles", roles}, {"roles at once", rolesAtOnce},
		{"lease at once", leaseAtOnce}, {"everything at once", everythingAtOnce}, {"reopened", reopened}, {"ended calls", endedCalls}, {"model", model},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := NewClock()
			open := o.New(t, clock)
			r := &rig{T: t, Store: open(), clock: clock, open: open, opt: o}
			t.Cleanup(func() {
				if err := r.Store.Close(); err != nil {
					t.Error(err)
				}
			})
			test.run(r)
		})
	}
}

// rig is one store under test.
type rig struct {
	*testing.T
	download.Store
	clock *Clock
	open  func() download.Store
	opt   Options
}

var ctx = context.Background()

// reopen closes the store and opens it again.
func (r *rig) reopen() {
	r.Helper()
	if err := r.Store.Close(); err != nil {
		r.Fatal(err)
	}
	r.Store = r.open()
}

// need ends the test on an error.
func (r *rig) need(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// want reports an error that differs from the one that the contract names.
func (r *rig) want(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// n scales a number of tasks to this store, and makes it even.
func (r *rig) n(full int) int { return full / max(r.opt.Part, 1) &^ 1 }

// job is a job that can be added.
func job(name string) download.Job {
	return download.Job{
		Name: name, Priority: 3, On: true, Filter: "uri_download",
		Setting: download.Setting{
			Dispatch: 100, Engine: download.EngineHTTP, Lane: download.Normal, Timeout: 30 * time.Second, MaxAttempts: 3,
			Delay: time.Second, Concurrency: 2, Robots: true, Proxies: []string{"http://proxy:1"}, Cookie: "a=b",
			Headers: map[string]string{"X-A.b$": "ü"}, MaxBytes: 1 << 20, KeepCookies: true, ReportMails: []string{"a@b.example"},
		},
		Code: download.Code{Language: "starlark", File: "job.star", Text: "fetch()\n"},
	}
}

func (r *rig) addJob(j download.Job) download.Job {
	r.Helper()
	j, err := r.AddJob(ctx, j)
	r.need(err)
	return j
}

func uri(i int) string { return fmt.Sprintf("https://host%d.example/page?n=%d", i%7, i) }

// newTasks returns URIs first to first+n-1, in shards by their number.
func newTasks(first, n int) []download.NewTask {
	tasks := make([]download.NewTask, n)
	for i := range tasks {
		tasks[i] = download.NewTask{URI: uri(first + i), Shard: (first + i) % download.Shards}
	}
	return tasks
}

func (r *rig) addTasks(job int64, first, n int) {
	r.Helper()
	added, err := r.AddTasks(ctx, job, newTasks(first, n))
	r.need(err)
	if added != n {
		r.Fatalf("added %d tasks, want %d", added, n)
	}
}

func (r *rig) handOut(job int64, n int) []download.Task {
	r.Helper()
	tasks, err := r.HandOut(ctx, job, n, 0, time.Hour)
	r.need(err)
	return tasks
}

var allShards = victim.AllShards()

// wish is the request of a worker that serves everything.
func wish(owner string, limit int) download.Want {
	return download.Want{Owner: owner, Max: limit, For: time.Minute, Shards: allShards, Lanes: download.Lanes()}
}

func (r *rig) lease(want download.Want) []download.Lease {
	r.Helper()
	leases, err := r.Lease(ctx, want)
	r.need(err)
	return leases
}

// wantLost renews leases, and compares the tasks whose leases are lost with those wanted.
func (r *rig) wantLost(owner string, leases []download.Lease, ttl time.Duration, want ...download.Lease) {
	r.Helper()
	lost, err := r.Renew(ctx, owner, leases, ttl)
	r.need(err)
	slices.Sort(lost)
	if want := ids(want); !slices.Equal(lost, want) {
		r.Errorf("lost %v, want %v", lost, want)
	}
}

// wantVoid wants that a lease settles nothing.
func (r *rig) wantVoid(l download.Lease) {
	r.Helper()
	id := l.Task.ID
	r.want("finish "+id, r.Finish(ctx, l, result("void"), attempt), download.ErrLeaseLost)
	r.want("finish large "+id, r.Finish(ctx, l, result(strings.Repeat("x", r.opt.LargeBody+1)), attempt), download.ErrLeaseLost)
	r.want("fail "+id, r.Fail(ctx, l, attempt, time.Time{}), download.ErrLeaseLost)
	r.want("fail for now "+id, r.Fail(ctx, l, attempt, r.clock.Now()), download.ErrLeaseLost)
	r.want("give back "+id, r.GiveBack(ctx, l, time.Time{}), download.ErrLeaseLost)
}

// leased adds a job with n tasks and leases them.
func (r *rig) leased(name string, n int) (download.Job, []download.Lease) {
	r.Helper()
	j := r.addJob(job(name))
	r.addTasks(j.ID, 0, n)
	r.handOut(j.ID, n)
	leases := r.lease(wish("worker", n))
	if len(leases) != n {
		r.Fatalf("leased %d tasks, want %d", len(leases), n)
	}
	return j, leases
}

// wantCounts compares the counts of a job with those wanted, and with a recount.
func (r *rig) wantCounts(job int64, want map[download.State]int) {
	r.Helper()
	got, err := r.Counts(ctx, job)
	r.need(err)
	recount := map[download.State]int{}
	for _, task := range r.tasks(download.Query{Job: job}) {
		recount[task.State]++
	}
	for _, state := range download.States() {
		if n, ok := got[state]; !ok || n != want[state] || n != recount[state] {
			r.Errorf("%s: counted %d (%t), want %d, and there are %d", state, n, ok, want[state], recount[state])
		}
	}
	if len(got) != len(download.States()) {
		r.Errorf("counts %v: want all states", got)
	}
}

func (r *rig) tasks(q download.Query) (all []download.Task) {
	r.Helper()
	r.need(r.ListTasks(ctx, q, func(t download.Task) error { all = append(all, t); return nil }))
	return all
}

func (r *rig) logs(q download.Query) (all []download.Log) {
	r.Helper()
	r.need(r.ListLogs(ctx, q, func(l download.Log) error { all = append(all, l); return nil }))
	return all
}

func (r *rig) data(q download.Query) (all []download.Data) {
	r.Helper()
	r.need(r.ListData(ctx, q, func(d download.Data) error { all = append(all, d); return nil }))
	return all
}

// task reads one task.
func (r *rig) task(job int64, id string) download.Task {
	r.Helper()
	all := r.tasks(download.Query{Job: job, Task: id})
	if len(all) != 1 || all[0].ID != id {
		r.Fatalf("task %s: %v, want one", id, all)
	}
	return all[0]
}

func (r *rig) body(task string) string {
	r.Helper()
	body, err := r.Body(ctx, task)
	r.need(err)
	text, err := io.ReadAll(body)
	r.need(err)
	r.need(body.Close())
	return string(text)
}

// result is the result of an attempt, with a text as its body.
func result(text string) download.Result {
	return download.Result{
		URI: "https://final.example/", Status: 200, Header: map[string][]string{"Content-Type": {"text/html"}, "X.$y": {"1", "2"}},
		ContentType: "text/html", Encoding: "utf-8", Body: strings.NewReader(text), Records: []byte("{\"a\":1}\n"),
	}
}

var attempt = download.Attempt{Status: 200, HostName: "w1", Spent: 1234567 * time.Microsecond}

func ids(leases []download.Lease) []string {
	all := make([]string, len(leases))
	for i, l := range leases {
		all[i] = l.Task.ID
	}
	slices.Sort(all)
	return all
}

// together runs work n times concurrently, and waits.
func together(n int, work func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { work(i) })
	}
	wait.Wait()
}

// wantLen reports another number of tasks, leases or records than the contract wants.
func wantLen[T any](r *rig, what string, got []T, want int) {
	r.Helper()
	if len(got) != want {
		r.Errorf("%s: %d, want %d: %v", what, len(got), want, got[:min(len(got), 10)])
	}
}
