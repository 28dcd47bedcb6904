package master

import (
	"sync/atomic"
	"testing"
	"time"
)

// A manual run is a task with the time of the call; the dispatcher is woken for it.
func TestGenerateByHand(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 700e6, time.UTC)
	var since atomic.Int64 // ns
	r := newRigAt(t, func() time.Time { return noon.Add(time.Duration(since.Load())) })
	r.want(404, "unknown_job", "POST", "/api/v1/jobs/news/generate", "")
	r.want(201, `"version":1`, "POST", "/api/v1/jobs", "name: plain")
	r.want(409, `"error_code":"no_script"`, "POST", "/api/v1/jobs/plain/generate", "")
	r.want(201, `"version":1`, "POST", "/api/v1/jobs", `{"name":"news","generate":{"every":"24h","code":{"file":"g.star","text":"def generate(run):\n    pass\n"}}}`)
	woken := r.woken.Load()
	r.want(200, `"run":"generate:2026-11-23T12:00:00Z"`, "POST", "/api/v1/jobs/news/generate", "")
	if r.woken.Load() != woken+1 {
		t.Error("the dispatcher was not woken")
	}
	r.want(200, `"added":false`, "POST", "/api/v1/jobs/news/generate", "")
	since.Store(int64(time.Second))
	r.want(200, `"status":"off"`, "POST", "/api/v1/jobs/news/pause", "")
	r.want(200, `"run":"generate:2026-11-23T12:00:01Z","task":"`, "POST", "/api/v1/jobs/news/generate", "")
	r.want(200, `"waiting":2`, "GET", "/api/v1/jobs/news", "")
}
