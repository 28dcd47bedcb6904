package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A node that is stopped finishes running downloads, takes no calls, and leaves the rest to the next one.
func TestStopWhileWorkRuns(t *testing.T) {
	t.Parallel()
	url, asked, answer := site(t)
	cfg := testSettings(t)
	n := open(t, cfg, All())
	if code, text := n.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","uris":[%q,%q],"setting":{"delay":"1ms","concurrency":1}}`, url+"/slow/1", url+"/slow/2")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	first := <-asked
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	for began := time.Now(); !strings.Contains(n.log.String(), "worker stops"); time.Sleep(time.Millisecond) {
		if time.Since(began) > patient {
			t.Fatalf("it does not stop: %s", n.log)
		}
	}
	answer()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", n.node.Addr().String(), time.Minute); err == nil {
		t.Error("its port is open")
	}
	again := open(t, cfg, All())
	again.until("/api/v1/jobs/a", `"done":2`)
	if second := <-asked; second == first {
		t.Errorf("%s was downloaded twice", first)
	}
	if code, text := again.call("GET", "/api/v1/jobs/a/logs", ""); code != 200 || strings.Count(text, "\n") != 2 {
		t.Errorf("%d attempts are logged: %s", code, text)
	}
}

// Downloads that do not end within shutdown_timeout are given back, and count as no attempt.
func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	url, asked, answer := site(t)
	cfg := testSettings(t)
	cfg.ShutdownTimeout = time.Millisecond
	n := open(t, cfg, All())
	if code, text := n.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","uris":[%q],"setting":{"delay":"1ms"}}`, url+"/slow/1")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	<-asked
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	answer()
	again := open(t, cfg, All())
	again.until("/api/v1/jobs/a", `"done":1`)
	if code, text := again.call("GET", "/api/v1/jobs/a/logs", ""); code != 200 || strings.Count(text, "\n") != 1 {
		t.Errorf("%d attempts are logged: %s", code, text)
	}
}

// If the disk has failed, nothing more can be stored: the node ends with the reason, and does not wait
// for the downloads under way.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	url, asked, answer := site(t)
	cfg := testSettings(t)
	cfg.ShutdownTimeout = time.Hour
	log := &testserver.Log{}
	n, err := Open(t.Context(), cfg, All(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context(), nil) }()
	r := &running{t: t, node: n, log: log}
	if code, text := r.call("POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"a","uris":[%q],"setting":{"delay":"1ms"}}`, url+"/slow/1")); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	<-asked
	broken := errors.New("input/output error")
	n.diskFailed(broken)
	select {
	case err := <-ended:
		if !errors.Is(err, broken) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(patient):
		t.Fatalf("it goes on\n%s", log)
	}
	answer()
	open(t, cfg, All()).until("/api/v1/jobs/a", `"done":1`)
}
