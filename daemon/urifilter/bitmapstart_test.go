package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/mongotest"
)

func TestArchiveUnreachableAtStart(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{})
	env := archived(server.URI())
	dir := t.TempDir()
	p := start(t, dir, env)
	p.wantFresh(0, 500, 500)
	asking := append([]string{"URIFILTER_LISTEN=" + p.addr}, env...)
	mustCommand(t, dir, asking, "bitmap", "update")
	p.wantFresh(500, 600, 100)
	_ = p.end(syscall.SIGKILL)
	server.Kill()

	// What the store has is served; that the archive is missing is said.
	p = start(t, dir, env)
	p.wantFresh(0, 600, 0)
	p.waitLog("the archive cannot give what is asked of it")
	if status, answer, _ := p.post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 503 || !strings.Contains(answer, "archive_unavailable") {
		t.Errorf("writeback: %d %s", status, answer)
	}
	_, metrics, _ := p.get("/metrics")
	mustContain(t, metrics, `urifilter_writeback_failures_total{filter="uri"} 1`)

	// With nothing at all it waits, and is alive.
	waits := begin(t, t.TempDir(), env)
	waitLive(t, waits)
	for range 2 {
		status, answer, err := waits.post(t.Context(), "/api/v1/filter", list(t, "https://example.com/1"))
		if err != nil || status != 503 || !strings.Contains(answer, "restoring") && !strings.Contains(answer, "archive_unavailable") {
			t.Errorf("filter: %d %s %v", status, answer, err)
		}
		if status, _, _ := waits.get("/readyz"); status != 503 {
			t.Errorf("readyz: %d", status)
		}
		waits.waitLog("the archive cannot give what is asked of it")
	}
	// Where the settings say so, it starts with nothing.
	empty := start(t, t.TempDir(), append(env, "URIFILTER_MONGODB_IF_UNREACHABLE=empty"))
	empty.wantFresh(0, 500, 500)
	empty.waitLog("filter starts EMPTY: the archive cannot be asked")

	server.Restart()
	waits.waitReady(60 * time.Second)
	waits.wantFresh(0, 600, 100)
	p.waitLog("store and archive agree")
	empty.waitLog("the archive has another bit-map under the name")
	if status, answer, _ := empty.post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 409 || !strings.Contains(answer, "archive_mismatch") {
		t.Errorf("writeback of another bit-map: %d %s", status, answer)
	}
	// The way out that the message names.
	if status, answer, _ := empty.send(http.MethodDelete, "/api/v1/filters/uri?confirm=uri"); status != 204 {
		t.Fatalf("drop: %d %s", status, answer)
	}
	if status, answer, _ := empty.post(t.Context(), "/api/v1/filters/uri/restore", ""); status != 200 {
		t.Errorf("restore: %d %s", status, answer)
	}
	empty.wantFresh(0, 500, 0)
}

// A dropped filter is not brought back by the next start, nor on another machine.
func TestDropIsToldToTheArchive(t *testing.T) {
	t.Parallel()
	env := archived(mongotest.Start(t))
	dir := t.TempDir()
	p := start(t, dir, env)
	p.wantFresh(0, 100, 100)
	if status, answer, _ := p.post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if status, answer, _ := p.send(http.MethodDelete, "/api/v1/filters/uri?confirm=uri"); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	_ = p.end(syscall.SIGTERM)
	for _, dir := range []string{dir, t.TempDir()} {
		p = start(t, dir, env)
		p.wantFresh(0, 100, 100)
		_ = p.end(syscall.SIGTERM)
	}
}
