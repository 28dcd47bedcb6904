package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// addGenerating adds a job that has a generate script.
func addGenerating(t *testing.T, s download.Store, name string, every time.Duration) download.Job {
	t.Helper()
	j := addJob(t, s, name, download.Normal, 3, 100, 0)
	j.Setting.Generate = download.Generate{Code: download.Code{Language: "starlark", File: "g.star", Text: "def generate(run): pass"}, Every: every}
	j, err := s.ChangeJob(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// runsOf returns the runs of a job, in the order of their names.
func runsOf(t *testing.T, s download.Store, j download.Job) string {
	t.Helper()
	var all []string
	err := s.ListTasks(t.Context(), download.Query{Job: j.ID}, func(task download.Task) error {
		if task.Script() != download.ScriptGenerate {
			t.Errorf("task %s is no run", task.URI)
		}
		all = append(all, strings.TrimPrefix(task.URI, "generate:"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// endAll finishes all tasks that were handed out.
func endAll(t *testing.T, s download.Store) {
	t.Helper()
	_, leases := leaseAll(t, s)
	for _, l := range leases {
		if err := s.Finish(t.Context(), l, download.Result{URI: l.Task.URI}, download.Attempt{}); err != nil {
			t.Fatal(err)
		}
	}
}

func leaseAll(t *testing.T, s download.Store) (int, []download.Lease) {
	t.Helper()
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: 1000, For: time.Hour, Shards: shards(), Lanes: download.Lanes()})
	if err != nil {
		t.Fatal(err)
	}
	return len(leases), leases
}

// running runs a dispatcher until the returned function is called.
func running(t *testing.T, s download.Store, owner string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := New(Options{Store: s, Owner: owner, Every: 6 * time.Hour, SweepEvery: time.Hour})
	var work sync.WaitGroup
	work.Go(func() { d.Run(ctx) })
	return func() { cancel(); work.Wait() }
}

// Runs are made when they are due, each once: across restarts, beside another dispatcher, and even
// if nothing wakes the dispatcher. The bubble begins at midnight UTC.
func TestRunsOfGenerate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		time.Sleep(10 * time.Minute)
		j := addGenerating(t, s, "news", time.Hour)
		off := addGenerating(t, s, "off", time.Hour)
		if err := s.SwitchJob(t.Context(), off.Name, false); err != nil {
			t.Fatal(err)
		}
		want := func(when, runs string) {
			t.Helper()
			synctest.Wait()
			if got := runsOf(t, s, j); got != runs {
				t.Errorf("%s: runs %q, want %q", when, got, runs)
			}
		}
		stop, beside := running(t, s, "a"), running(t, s, "b")
		time.Sleep(time.Second)
		want("at the start", "2000-01-01T00:00:00Z")
		time.Sleep(time.Hour)
		want("after an hour, and the run before has not ended", "2000-01-01T00:00:00Z")
		endAll(t, s)
		time.Sleep(50 * time.Minute)
		want("when that has", "2000-01-01T00:00:00Z 2000-01-01T02:00:00Z")
		endAll(t, s)
		stop()
		beside()
		stop = running(t, s, "c")
		time.Sleep(time.Minute)
		want("after a restart", "2000-01-01T00:00:00Z 2000-01-01T02:00:00Z")
		stop()
		time.Sleep(5 * time.Hour)
		stop = running(t, s, "d")
		time.Sleep(time.Minute)
		want("after five hours away", "2000-01-01T00:00:00Z 2000-01-01T02:00:00Z 2000-01-01T07:00:00Z")
		endAll(t, s)
		time.Sleep(time.Hour)
		want("an hour later", "2000-01-01T00:00:00Z 2000-01-01T02:00:00Z 2000-01-01T07:00:00Z 2000-01-01T08:00:00Z")
		stop()
		if got := runsOf(t, s, off); got != "" {
			t.Errorf("a job that is off has the runs %q", got)
		}
	})
}

// Without a schedule each version of a job has one run.
func TestARunOfEachVersion(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	j := addGenerating(t, s, "news", 0)
	for range 2 {
		d := New(Options{Store: s, Owner: "d"})
		once(t, d)
		if report := once(t, d); report.next != 0 || report.Ready != 1 {
			t.Errorf("report %+v, want one task that is ready, and none due", report)
		}
	}
	if got := runsOf(t, s, j); got != "v2" {
		t.Errorf("runs %q, want that of version 2", got)
	}
	j.Setting.Generate.Code.Text += "\n"
	if _, err := s.ChangeJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	once(t, New(Options{Store: s, Owner: "e"}))
	if got := runsOf(t, s, j); got != "v2" {
		t.Errorf("runs %q while that of version 2 has not ended", got)
	}
	endAll(t, s)
	once(t, New(Options{Store: s, Owner: "e"}))
	if got := runsOf(t, s, j); got != "v2 v3" {
		t.Errorf("runs %q, want those of versions 2 and 3", got)
	}
}

// A run that is due waits until the one before has ended, also if another dispatcher has made that one.
func TestRunWaitsForThatOfAnotherDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		j := addGenerating(t, s, "news", time.Hour)
		stop := running(t, s, "a")
		time.Sleep(time.Second)
		leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: 1, For: 12 * time.Hour, Shards: shards(), Lanes: download.Lanes()})
		if err != nil || len(leases) != 1 {
			t.Fatalf("%d leases, %v", len(leases), err)
		}
		stop()
		time.Sleep(time.Hour)
		stop = running(t, s, "b")
		defer func() { stop() }()
		time.Sleep(30 * time.Minute)
		if got := runsOf(t, s, j); got != "2000-01-01T00:00:00Z" {
			t.Errorf("runs %q, and the first one still runs", got)
		}
		if err := s.Finish(t.Context(), leases[0], download.Result{URI: leases[0].Task.URI}, download.Attempt{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := runsOf(t, s, j); !strings.HasPrefix(got, "2000-01-01T00:00:00Z ") {
			t.Errorf("runs %q an hour after it has ended", got)
		}
	})
}
