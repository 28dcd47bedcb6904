package master

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The activity covers all jobs and roles of the store. If a second call begins where the first one
// ended, each attempt is counted once.
func TestActivity(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r := newRigAt(t, func() time.Time { return now })
	ask := func(query string) (a Activity) {
		t.Helper()
		status, text := r.do(http.MethodGet, "/api/v1/activity"+query, "")
		if err := json.Unmarshal([]byte(text), &a); status != http.StatusOK || err != nil {
			t.Fatalf("%d: %s, %v", status, text, err)
		}
		return a
	}
	if a := ask(""); !a.Time.Equal(now) || a.Dispatcher != "" || len(a.Jobs)+len(a.Workers)+len(a.Errors) != 0 {
		t.Errorf("of an empty store: %+v", a)
	}
	r.want(http.StatusCreated, "", http.MethodPost, "/api/v1/jobs", `{"name": "b", "uris": ["http://a/1", "http://a/2", "http://a/3", "http://a/4"]}`, "Content-Type", "application/json")
	r.want(http.StatusCreated, "", http.MethodPost, "/api/v1/jobs", `{"name": "a"}`, "Content-Type", "application/json")
	j, err := r.store.Job(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	shard := download.ShardOf(download.HostOf("http://a/"))
	if _, err := r.store.HandOut(t.Context(), j.ID, 4, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := r.store.Lease(t.Context(), download.Want{Owner: "w1", Max: 4, For: time.Hour, Shards: []int{shard}, Lanes: download.Lanes()})
	if err != nil || len(leases) != 4 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	fail := func(i int, reason string) {
		t.Helper()
		if err := r.store.Fail(t.Context(), leases[i], download.Attempt{Reason: reason}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{download.DispatcherRole, download.WorkerPrefix + "w1", download.ShardPrefix + "1", download.ShardPrefix + "2"} {
		owner := "w1"
		if name == download.DispatcherRole {
			owner = "d"
		}
		if _, err := r.store.Hold(t.Context(), owner, []string{name}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	fail(0, "timeout: http://a/1: nothing for 30s")
	now = now.Add(time.Second)
	fail(1, "timeout: http://a/2")
	first := ask("")
	if want := []AttemptErrors{{"b", "timeout", 1}}; !slices.Equal(first.Errors, want) || first.ErrorsCut {
		t.Errorf("errors %+v, want %+v", first.Errors, want)
	}
	if want := []ActiveHost{{"a", 2, 1}}; !slices.Equal(first.Jobs[1].Hosts, want) || first.Jobs[0].Hosts != nil {
		t.Errorf("hosts %+v and %+v, want %+v and none", first.Jobs[1].Hosts, first.Jobs[0].Hosts, want)
	}
	if first.Dispatcher != "d" || !slices.Equal(first.Workers, []ActiveWorker{{"w1", 2}}) {
		t.Errorf("roles: %+v", first)
	}
	if len(first.Jobs) != 2 || first.Jobs[0].Name != "a" || first.Jobs[1].Tasks["failed"] != 2 || first.Jobs[1].Tasks["running"] != 2 || first.Jobs[1].Status != "on" {
		t.Errorf("jobs: %+v", first.Jobs)
	}
	fail(2, "dns: http://a/3")
	if err := r.store.Finish(t.Context(), leases[3], download.Result{Status: 200}, download.Attempt{Status: 200}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	second := ask("?since=" + first.Time.Format(time.RFC3339Nano))
	if want := []AttemptErrors{{"b", "dns", 1}, {"b", "timeout", 1}}; !slices.Equal(second.Errors, want) || !second.Since.Equal(first.Time) {
		t.Errorf("errors %+v, want %+v", second.Errors, want)
	}
	r.want(http.StatusBadRequest, "2026-11-23T12:00:00Z", http.MethodGet, "/api/v1/activity?since=today", "")
	r.want(http.StatusOK, "/api/v1/activity", http.MethodGet, "/", "")
}
