package master

import (
	"net/http"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestRetry: failed tasks are tried again, those of some reasons and hosts or all.
func TestRetry(t *testing.T) {
	r := newRig(t)
	r.want(http.StatusCreated, "", http.MethodPost, "/api/v1/jobs", `{"name": "b", "uris": ["http://a/1", "http://a/2", "http://b/1", "http://b/2", "http://b/3"]}`, "Content-Type", "application/json")
	j, err := r.store.Job(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.HandOut(t.Context(), j.ID, 5, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	var shards []int
	for i := range download.Shards {
		shards = append(shards, i)
	}
	leases, err := r.store.Lease(t.Context(), download.Want{Owner: "w1", Max: 5, For: time.Hour, Shards: shards, Lanes: download.Lanes()})
	if err != nil || len(leases) != 5 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	for _, l := range leases {
		reason := "timeout: " + l.Task.URI
		if l.Task.URI == "http://b/3" {
			reason = "status: 404"
		}
		if err := r.store.Fail(t.Context(), l, download.Attempt{Reason: reason}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ query, want string }{
		{"?host=c", `"retried":0,"left":{"status":1,"timeout":4}`}, {"?reason=timeuot", `"retried":0,"left":{"status":1,"timeout":4}`},
		{"?host=B&reason=status", `"retried":1,"left":{"timeout":4}`}, {"?reason=status", `"retried":0,"left":{"timeout":4}`},
		{"?host=a&host=c&reason=status&reason=timeout", `"retried":2,"left":{"timeout":2}`}, {"", `"retried":2,"left":{}`},
	} {
		r.want(http.StatusOK, c.want, http.MethodPost, "/api/v1/jobs/b/retry"+c.query, "")
	}
	counts, err := r.store.Counts(t.Context(), j.ID)
	if err != nil || counts[download.Waiting] != 5 {
		t.Errorf("%v, %v, want 5 that wait", counts, err)
	}
	r.want(http.StatusBadRequest, "unknown_parameter", http.MethodPost, "/api/v1/jobs/b/retry?reasons=x", "")
	r.want(http.StatusBadRequest, "want a name", http.MethodPost, "/api/v1/jobs/b/retry?host=", "")
	r.want(http.StatusNotFound, "", http.MethodPost, "/api/v1/jobs/c/retry", "")
}
