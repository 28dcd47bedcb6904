package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
)

func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// addJob adds a job that is on, with n tasks.
func addJob(t *testing.T, s download.Store, name string, lane download.Lane, priority, dispatch, n int) download.Job {
	t.Helper()
	j, err := s.AddJob(t.Context(), download.Job{Name: name, Priority: priority, On: true,
		Setting: download.Setting{Dispatch: dispatch, Lane: lane, Engine: download.EngineHTTP, MaxAttempts: 3, Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	addTasks(t, s, j, 0, n)
	return j
}

func addTasks(t *testing.T, s download.Store, j download.Job, from, n int) {
	t.Helper()
	tasks := make([]download.NewTask, n)
	for i := range tasks {
		tasks[i] = download.NewTask{URI: fmt.Sprintf("http://%s.example/%d", j.Name, from+i), Shard: i % download.Shards}
	}
	if _, err := s.AddTasks(t.Context(), j.ID, tasks); err != nil {
		t.Fatal(err)
	}
}

func shards() []int {
	all := make([]int, download.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// leaseJobs leases up to n tasks, and returns the jobs to which they belong.
func leaseJobs(t *testing.T, s download.Store, n int, lanes ...download.Lane) ([]string, []download.Lease) {
	t.Helper()
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: n, For: time.Hour, Shards: shards(), Lanes: lanes})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range leases {
		host := strings.TrimPrefix(l.Task.URI, "http://")
		names = append(names, host[:strings.IndexByte(host, '.')])
	}
	return names, leases
}

func count(t *testing.T, s download.Store, j download.Job, state download.State) int {
	t.Helper()
	counts, err := s.Counts(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	return counts[state]
}

func once(t *testing.T, d *Dispatcher) Report {
	t.Helper()
	report, err := d.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Tasks that no live worker can do take no places of others; they are handed out when there is one that can.
func TestTasksThatNobodyCanDo(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	hold := func(owner string, needs ...string) {
		t.Helper()
		names := []string{download.WorkerPrefix + owner}
		for _, need := range needs {
			names = append(names, download.HasName(need, owner))
		}
		if _, err := s.Hold(t.Context(), owner, names, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := s.AddJob(t.Context(), download.Job{Name: "pages", Priority: 9, On: true,
		Setting: download.Setting{Dispatch: 100, Lane: download.Normal, Engine: download.EngineBrowser, MaxAttempts: 3, Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	addTasks(t, s, pages, 0, 50)
	plain := addJob(t, s, "plain", download.Normal, 0, 100, 50)
	d := New(Options{Store: s, Owner: "d", MaxReady: 20})
	hold("w1", download.EngineHTTP, download.NeedLane(download.Normal))
	if once(t, d); count(t, s, pages, download.Ready) != 0 || count(t, s, plain, download.Ready) != 20 {
		t.Errorf("handed out %d that need a browser, and %d others; want none and 20", count(t, s, pages, download.Ready), count(t, s, plain, download.Ready))
	}
	hold("w2", download.EngineHTTP, download.EngineBrowser, download.NeedLane(download.Normal))
	if once(t, d); count(t, s, pages, download.Ready) == 0 {
		t.Error("none is handed out although there is a worker with a browser")
	}
}

func TestOrderOfLanesAndPriorities(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	addJob(t, s, "low", download.Normal, 0, 2, 5)
	addJob(t, s, "abroad", download.Foreign, 9, 2, 5)
	addJob(t, s, "high", download.Normal, 9, 2, 5)
	addJob(t, s, "urgent", download.Urgency, 0, 2, 5)
	off := addJob(t, s, "off", download.Urgency, 9, 2, 5)
	if err := s.SwitchJob(t.Context(), off.Name, false); err != nil {
		t.Fatal(err)
	}
	d := New(Options{Store: s, Owner: "d"})
	if got, want := once(t, d), (Report{Held: true, HandedOut: 8, Waiting: 12, Ready: 8}); got != want {
		t.Errorf("first round: %+v, want %+v", got, want)
	}
	if got, want := once(t, d), (Report{Held: true, Waiting: 12, Ready: 8}); got != want {
		t.Errorf("second round: %+v, want %+v", got, want)
	}
	got, leases := leaseJobs(t, s, 3, download.Normal, download.Urgency)
	if want := []string{"urgent", "urgent", "high"}; !slices.Equal(got, want) {
		t.Errorf("leased first: %v, want %v", got, want)
	}
	if got, want := once(t, d), (Report{Held: true, Waiting: 12, Ready: 5, Running: 3}); got != want {
		t.Errorf("while tasks run: %+v, want %+v", got, want)
	}
	if err := s.Finish(t.Context(), leases[2], download.Result{URI: leases[2].Task.URI, Status: 200}, download.Attempt{Status: 200}); err != nil {
		t.Fatal(err)
	}
	if got, want := once(t, d), (Report{Held: true, HandedOut: 1, Waiting: 11, Ready: 6, Running: 2}); got != want {
		t.Errorf("after a task has ended: %+v, want %+v", got, want)
	}
	got, _ = leaseJobs(t, s, 10, download.Normal, download.Urgency)
	if want := []string{"high", "high", "low", "low"}; !slices.Equal(got, want) {
		t.Errorf("leased then: %v, want %v", got, want)
	}
	if got, _ = leaseJobs(t, s, 10, download.Foreign); !slices.Equal(got, []string{"abroad", "abroad"}) {
		t.Errorf("leased abroad: %v", got)
	}
}

// TestBacklogIsBounded: each lane has MaxReady, and a job that has nothing gets one more.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	high := addJob(t, s, "high", download.Normal, 9, 100, 200)
	a := addJob(t, s, "a", download.Normal, 3, 100, 200)
	b := addJob(t, s, "b", download.Normal, 3, 5, 200)
	low := addJob(t, s, "low", download.Normal, 0, 100, 200)
	abroad := addJob(t, s, "abroad", download.Foreign, 0, 100, 200)
	d := New(Options{Store: s, Owner: "d", MaxReady: 120})
	once(t, d)
	for job, want := range map[*download.Job]int{&high: 100, &a: 14, &b: 5, &low: 1, &abroad: 100} {
		if got := count(t, s, *job, download.Ready); got != want {
			t.Errorf("%s: %d are ready, want %d", job.Name, got, want)
		}
	}
	late := addJob(t, s, "late", download.Normal, 0, 100, 200)
	if got := once(t, d).HandedOut; got != 1 || count(t, s, late, download.Ready) != 1 {
		t.Errorf("a job that comes late gets %d places", got)
	}
}

// TestLowPriorityDoesNotStarve: while tasks of priority 9 come for ever, faster than workers
// take them, a task of priority 0 waits for 9 steps, but no longer.
func TestLowPriorityDoesNotStarve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		high := addJob(t, s, "high", download.Normal, 9, 1000, 1000)
		addJob(t, s, "low", download.Normal, 0, 1000, 1)
		d := New(Options{Store: s, Owner: "d", MaxReady: 20})
		began := time.Now()
		for added := 1000; ; added += 10 {
			once(t, d)
			names, leases := leaseJobs(t, s, 10, download.Normal)
			waited := time.Since(began)
			if slices.Contains(names, "low") {
				if waited < 9*PriorityStep {
					t.Errorf("it was leased after %v, before others that were handed out less than %v after it", waited, 9*PriorityStep)
				}
				break
			}
			if waited > 10*PriorityStep {
				t.Fatalf("not leased after %v", waited)
			}
			for _, l := range leases {
				if err := s.Fail(t.Context(), l, download.Attempt{Reason: "x"}, time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			addTasks(t, s, high, added, 10)
			time.Sleep(10 * time.Second) // of the bubble's clock
		}
	})
}

// TestUnclaimedAreHandedOutAgain also checks that Once sweeps.
func TestUnclaimedAreHandedOutAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		addJob(t, s, "a", download.Normal, 0, 3, 5)
		d := New(Options{Store: s, Owner: "d", ReadyFor: time.Minute})
		once(t, d)
		time.Sleep(time.Minute)
		got := once(t, d)
		if want := (Report{Held: true, Swept: download.Swept{Unclaimed: 3}, HandedOut: 3, Waiting: 2, Ready: 3}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// faulty is a store that fails on request.
type faulty struct {
	download.Store
	handOut atomic.Int64 // the job whose HandOut fails
	cut     atomic.Bool  // all calls fail
	calls   atomic.Int64 // calls of HandOut that reached the store
}

var errCut = errors.New("the store does not answer")

func (f *faulty) HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]download.Task, error) {
	if f.cut.Load() || f.handOut.Load() == job {
		return nil, errCut
	}
	f.calls.Add(1)
	return f.Store.HandOut(ctx, job, n, rank, ttl)
}

func (f *faulty) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	if f.cut.Load() {
		return nil, errCut
	}
	return f.Store.Hold(ctx, owner, names, ttl)
}

func (f *faulty) LetGo(ctx context.Context, owner string, names []string) error {
	if f.cut.Load() {
		return errCut
	}
	return f.Store.LetGo(ctx, owner, names)
}

func TestErrorOfOneJobDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	bad := addJob(t, s, "bad", download.Normal, 9, 3, 5)
	good := addJob(t, s, "good", download.Normal, 0, 3, 5)
	f := &faulty{Store: s}
	f.handOut.Store(bad.ID)
	report, err := New(Options{Store: f, Owner: "d"}).Once(t.Context())
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "job bad") {
		t.Errorf("the error is %v", err)
	}
	if report.HandedOut != 3 || count(t, s, good, download.Ready) != 3 {
		t.Errorf("the good job has %d ready, want 3; %+v", count(t, s, good, download.Ready), report)
	}
}

// TestWake: tasks that come in are handed out at once, and workers are notified.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		var told atomic.Int64
		registry := prometheus.NewPedanticRegistry()
		d := New(Options{Store: s, Owner: "d", Every: time.Hour, HandedOut: func() { told.Add(1) }, Registry: registry})
		stop := start(t, d)
		time.Sleep(time.Minute)
		began := time.Now()
		j := addJob(t, s, "a", download.Normal, 0, 10, 20)
		d.Wake()
		d.Wake()
		waitFor(t, func() bool { return told.Load() == 1 })
		if got := count(t, s, j, download.Ready); got != 10 {
			t.Errorf("%d are ready, want 10", got)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		stop()
		families, err := registry.Gather()
		if err != nil || len(families) != 6 {
			t.Errorf("metrics: %d, %v", len(families), err)
		}
		for _, family := range families {
			if family.GetName() == "handed_out_tasks_total" && family.GetMetric()[1].GetCounter().GetValue() != 10 {
				t.Errorf("handed out, by metrics: %v", family)
			}
		}
		holders, err := s.Holders(t.Context(), Role)
		if err != nil || len(holders) != 0 {
			t.Errorf("the role is held after the end: %v, %v", holders, err)
		}
	})
}

// TestFullJobsAreLookedAtAgain without Wake: as tasks end, others are handed out within seconds,
// and retries when their time has come.
func TestFullJobsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		j := addJob(t, s, "a", download.Normal, 0, 5, 50)
		d := New(Options{Store: s, Owner: "d", Every: 10 * time.Second})
		stop := start(t, d)
		defer stop()
		began := time.Now()
		for done := 0; done < 50; {
			_, leases := leaseJobs(t, s, 10, download.Normal)
			for _, l := range leases {
				if l.Task.Attempts == 1 {
					if err := s.Fail(t.Context(), l, download.Attempt{Reason: "once"}, time.Now().Add(3*time.Second)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if err := s.Finish(t.Context(), l, download.Result{Status: 200}, download.Attempt{}); err != nil {
					t.Fatal(err)
				}
				done++
			}
			if got := count(t, s, j, download.Ready); got > 5 {
				t.Fatalf("%d are ready, want 5 at most", got)
			}
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("%d of 50 done after %v", done, time.Since(began))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestTwoDispatchers: one works and the other stands by; it takes over when the first ends, and
// when it is cut off, and the two never both hand out.
func TestTwoDispatchers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		j := addJob(t, s, "a", download.Normal, 0, 1, 1)
		f := [2]*faulty{{Store: s}, {Store: s}}
		var d [2]*Dispatcher
		var stop [2]func()
		for i := range d {
			d[i] = New(Options{Store: f[i], Owner: fmt.Sprint("d", i), Every: time.Second, MaxReady: 1000})
		}
		stop[0] = start(t, d[0])
		time.Sleep(time.Second) // so that it is the first
		stop[1] = start(t, d[1])
		defer func() { stop[1]() }()
		added := 1
		// serve settles all tasks of the job and adds others, for some time of the bubble.
		serve := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				if got := count(t, s, j, download.Ready); got > 1 {
					t.Fatalf("%d are ready, want 1 at most", got)
				}
				_, leases := leaseJobs(t, s, 10, download.Normal)
				for _, l := range leases {
					if err := s.Finish(t.Context(), l, download.Result{Status: 200}, download.Attempt{}); err != nil {
						t.Fatal(err)
					}
					addTasks(t, s, j, added, 1)
					added++
				}
			}
		}
		serve(5 * time.Minute)
		if a, b := f[0].calls.Load(), f[1].calls.Load(); a < 100 || b != 0 {
			t.Errorf("while both run: the first handed out %d times, the other %d", a, b)
		}
		f[0].cut.Store(true)
		before := f[0].calls.Load()
		serve(roleFor + roleFor/3 + 5*time.Second)
		if f[1].calls.Load() == 0 {
			t.Error("the other did not take over from one that was cut off")
		}
		f[0].cut.Store(false)
		serve(time.Minute)
		if got := f[0].calls.Load(); got != before {
			t.Errorf("the first, which is back, handed out %d times though the other works", got-before)
		}
		stop[1]()
		stop[1] = func() {}
		serve(time.Minute)
		if f[0].calls.Load() == before {
			t.Error("the first did not take over after the other had ended")
		}
		stop[0]()
	})
}

// TestOnceBesideAnother does nothing while another works.
func TestOnceBesideAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		stop := start(t, New(Options{Store: s, Owner: "runs", Every: time.Hour}))
		synctest.Wait()
		waitFor(t, func() bool {
			holders, err := s.Holders(t.Context(), Role)
			return err == nil && holders[Role] == "runs"
		})
		j := addJob(t, s, "a", download.Normal, 0, 3, 5)
		d := New(Options{Store: s, Owner: "once"})
		if got := once(t, d); got != (Report{}) || count(t, s, j, download.Ready) != 0 {
			t.Errorf("got %+v", got)
		}
		stop()
		if got := once(t, d); !got.Held || got.HandedOut != 3 {
			t.Errorf("when the other has ended: %+v", got)
		}
		if got := once(t, New(Options{Store: s, Owner: "next"})); !got.Held {
			t.Error("Once did not free the role")
		}
	})
}

// start runs a dispatcher; the returned function ends it.
func start(t *testing.T, d *Dispatcher) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// waitFor lets the bubble's time run until so returns true.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for range 10_000 {
		if so() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come")
}

// stuck is a store whose second call of Hold gets no answer.
type stuck struct {
	download.Store
	calls  atomic.Int32
	called chan struct{}
}

func (s *stuck) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	if s.calls.Add(1) != 2 {
		return s.Store.Hold(ctx, owner, names, ttl)
	}
	close(s.called)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A dispatcher that is stopped while it renews its role frees the role, so that another need not wait.
func TestStopFreesTheRole(t *testing.T) {
	t.Parallel()
	s := &stuck{Store: openStore(t), called: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	d := New(Options{Store: s, Owner: "a"})
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	d.Wake()
	<-s.called
	cancel()
	<-ended
	held, err := s.Hold(t.Context(), "b", []string{Role}, time.Minute)
	if err != nil || len(held) != 1 {
		t.Errorf("another gets %q, %v", held, err)
	}
}
