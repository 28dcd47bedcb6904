package master

import (
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// A job says what no worker can do for it, and which workers cannot; a worker of an older release counts as able.
func TestBlocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := func(owner string, names ...string) {
		t.Helper()
		if got, err := r.store.Hold(t.Context(), owner, names, time.Hour); err != nil || len(got) != len(names) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	r.want(201, "", "POST", "/api/v1/jobs", `{"name":"shop","uris":["http://a.example/"],"setting":{"download_engine":"browser"}}`)
	if code, text := r.do("GET", "/api/v1/jobs/shop", ""); code != 200 || strings.Contains(text, "blocked") {
		t.Errorf("without workers: %d %s", code, text)
	}
	hold("w1", download.WorkerPrefix+"w1", download.HasName(download.EngineHTTP, "w1"), download.HasName(download.NeedLane(download.Normal), "w1"))
	const none = `"blocked":["no worker has download_engine: browser (docs/browser.md): its tasks wait for one that has it"]`
	r.want(200, none, "GET", "/api/v1/jobs/shop", "")
	r.want(200, none, "GET", "/api/v1/activity", "")
	hold("w2", download.WorkerPrefix+"w2", download.HasName(download.EngineBrowser, "w2"), download.HasName(download.NeedLane(download.Foreign), "w2"))
	r.want(200, `"blocked":["no worker has all of download_engine: browser (docs/browser.md), prior: normal (worker.lanes): its tasks wait for one that has"]`,
		"GET", "/api/v1/jobs/shop", "")
	hold("w3", download.WorkerPrefix+"w3") // of an older release
	if _, text := r.do("GET", "/api/v1/jobs/shop", ""); strings.Contains(text, "blocked") {
		t.Errorf("one can do it: %s", text)
	}
	r.want(201, "", "POST", "/api/v1/jobs", `{"name":"idle","setting":{"download_engine":"browser"}}`)
	if _, text := r.do("GET", "/api/v1/jobs/idle", ""); strings.Contains(text, "blocked") {
		t.Errorf("it has no tasks: %s", text)
	}
}
