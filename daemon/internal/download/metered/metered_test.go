package metered_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/metered"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
)

func open(t *testing.T, registry prometheus.Registerer) *metered.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := metered.New(store, registry)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Callers get what the store returns, and each call is counted under its own name.
func TestCallsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := open(t, registry)
	ctx := context.Background()
	now, err := s.Now(ctx)
	if err != nil || time.Since(now).Abs() > time.Hour {
		t.Fatalf("now: %v, %v", now, err)
	}
	j, err := s.AddJob(ctx, download.Job{Name: "news", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"https://example.com/1", "https://example.com/2", "https://example.com/3"} {
		task, err := download.TaskOf(uri)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.AddTasks(ctx, j.ID, []download.NewTask{task}); n != 1 || err != nil {
			t.Fatalf("%s: %d added, %v", uri, n, err)
		}
	}
	if tasks, err := s.HandOut(ctx, j.ID, 3, 1, time.Minute); len(tasks) != 3 || err != nil {
		t.Fatalf("%d handed out, %v", len(tasks), err)
	}
	shards := make([]int, download.Shards)
	for i := range shards {
		shards[i] = i
	}
	leases, err := s.Lease(ctx, download.Want{Owner: "w", Max: 3, For: time.Minute, Shards: shards, Lanes: download.Lanes()})
	if len(leases) != 3 || err != nil {
		t.Fatalf("%d leased, %v", len(leases), err)
	}
	if lost, err := s.Renew(ctx, "w", leases, time.Minute); len(lost) != 0 || err != nil {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if err := s.Finish(ctx, leases[0], download.Result{Status: 200}, download.Attempt{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fail(ctx, leases[1], download.Attempt{Reason: "gone"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := s.GiveBack(ctx, leases[2], time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := s.GiveBack(ctx, leases[2], time.Time{}); !errors.Is(err, download.ErrLeaseLost) {
		t.Fatalf("a second time: %v", err)
	}
	counts, err := s.Counts(ctx, j.ID)
	if err != nil || counts[download.Done] != 1 || counts[download.Failed] != 1 || counts[download.Waiting] != 1 {
		t.Fatalf("counts: %v, %v", counts, err)
	}
	want := map[string]uint64{"now": 1, "add_tasks": 3, "hand_out": 1, "lease": 1, "renew": 1, "finish": 1, "fail": 1, "give_back": 2, "counts": 1}
	got := calls(t, registry)
	for call, n := range want {
		if got[call] != n {
			t.Errorf("%s: counted %d times, want %d", call, got[call], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("counted: %v, want %v", got, want)
	}
}

func calls(t *testing.T, registry prometheus.Gatherer) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	return got
}
