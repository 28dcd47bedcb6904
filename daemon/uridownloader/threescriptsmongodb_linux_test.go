package main

import (
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

// TestSystemThreeScriptsOnMongoDB runs the example of the manual with master, dispatcher and two workers in
// processes that share only MongoDB and the filter: everything is generated, downloaded and parsed once.
func TestSystemThreeScriptsOnMongoDB(t *testing.T) {
	t.Parallel()
	n, filter, program := newNewspaper(t), clienttest.NewServer(t), released(t).program
	turns := mongotest.NewTurns(t, mongotest.New(t, mongotest.Options{}).Addr())
	// No lease ends before it is renewed, however busy the machine is: each page is asked for once.
	env := environ{"URIDOWNLOADER_STORE=mongodb", "URIDOWNLOADER_MONGODB_URI=" + turns.URI(), "URIDOWNLOADER_WORKER_LEASE=5m"}
	dir := func() string { return filepath.Join(t.TempDir(), "data") }
	master := env.role(t, program, dir(), filter.URL, "master")
	env.role(t, program, dir(), filter.URL, "dispatch")
	const workers = 2
	for range workers {
		env.role(t, program, dir(), filter.URL, "worker", "--allow-private")
	}
	master.must("", "job", "add", newsFiles(t, n, master.dir))
	if got := master.settled("news", 1+2*(lists+articles)); got["failed"] > 0 {
		t.Errorf("%v: %s", got, master.must("", "logs", "news"))
	}
	master.wantDay(n)
	for path, times := range n.requests() {
		if path == "/robots.txt" && times <= workers {
			continue // each worker asks for itself: the host may move to the worker that comes second
		}
		if times != 1 {
			t.Errorf("%s was asked for %d times", path, times)
		}
	}
}
