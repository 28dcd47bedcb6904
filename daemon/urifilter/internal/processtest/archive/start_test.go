package archive_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestArchiveUnreachableAtStart(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{})
	env := processtest.WithArchive(server.URI())
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.WantFresh(0, 500, 500)
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	processtest.MustCommand(t, dir, asking, "bitmap", "update")
	p.WantFresh(500, 600, 100)
	_ = p.End(syscall.SIGKILL)
	server.Kill()

	// Filters of the store are served; the missing archive is reported.
	p = processtest.Start(t, dir, env)
	p.WantFresh(0, 600, 0)
	p.AwaitLog("the archive cannot be read")
	if status, answer, _ := p.Post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 503 || !strings.Contains(answer, "archive_unavailable") {
		t.Errorf("writeback: %d %s", status, answer)
	}
	_, metrics, _ := p.Get("/metrics")
	processtest.MustContain(t, metrics, `urifilter_writeback_failures_total{filter="uri"} 1`)

	// Without any data it waits, and is alive.
	waits := processtest.Begin(t, t.TempDir(), env)
	processtest.AwaitLive(t, waits)
	for range 2 {
		status, answer, err := waits.Post(t.Context(), "/api/v1/filter", processtest.List(t, "https://example.com/1"))
		if err != nil || status != 503 || !strings.Contains(answer, "restoring") && !strings.Contains(answer, "archive_unavailable") {
			t.Errorf("filter: %d %s %v", status, answer, err)
		}
		if status, _, _ := waits.Get("/readyz"); status != 503 {
			t.Errorf("readyz: %d", status)
		}
		waits.AwaitLog("the archive cannot be read")
	}
	// If the settings say so, it starts empty.
	empty := processtest.Start(t, t.TempDir(), append(env, "URIFILTER_MONGODB_IF_UNREACHABLE=empty"))
	empty.WantFresh(0, 500, 500)
	empty.AwaitLog("filter starts EMPTY: the archive cannot be asked")

	server.Restart()
	waits.AwaitReady()
	waits.WantFresh(0, 600, 100)
	p.AwaitLog("store and archive agree")
	empty.AwaitLog("the archive has another bit-map under the name")
	if status, answer, _ := empty.Post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 409 || !strings.Contains(answer, "archive_mismatch") {
		t.Errorf("writeback of another bit-map: %d %s", status, answer)
	}
	// The remedy that the message names.
	if status, answer, _ := empty.Send(http.MethodDelete, "/api/v1/filters/uri?confirm=uri"); status != 204 {
		t.Fatalf("drop: %d %s", status, answer)
	}
	if status, answer, _ := empty.Post(t.Context(), "/api/v1/filters/uri/restore", ""); status != 200 {
		t.Errorf("restore: %d %s", status, answer)
	}
	empty.WantFresh(0, 500, 0)
}

// A dropped filter is not brought back by the next start, nor on another machine.
func TestDropIsToldToTheArchive(t *testing.T) {
	t.Parallel()
	env := processtest.WithArchive(mongotest.Start(t))
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.WantFresh(0, 100, 100)
	if status, answer, _ := p.Post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if status, answer, _ := p.Send(http.MethodDelete, "/api/v1/filters/uri?confirm=uri"); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	_ = p.End(syscall.SIGTERM)
	for _, dir := range []string{dir, t.TempDir()} {
		p = processtest.Start(t, dir, env)
		p.WantFresh(0, 100, 100)
		_ = p.End(syscall.SIGTERM)
	}
}
