//go:build linux

package main

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
)

// A daemon that was killed and is started again knows that its earlier life is dead, and
// tells the others: nobody waits for it when Redis loses its data, be it before or after.
func TestNobodyWaitsForAnEarlierLife(t *testing.T) {
	t.Parallel()
	// The file of Redis has heartbeats from before the kills, and brings them back.
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	env := redisEnv(server.Addr)
	dir := t.TempDir()
	a, b := start(t, dir, env), start(t, t.TempDir(), env)
	const waited = "do not answer; what only they knew may be new again"
	answers := func(p *process) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if status, _, err := p.post(context.Background(), "/api/v1/filter", list(t, "https://example.com/")); err == nil && status == http.StatusOK {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no answer:\n%s", p.log)
			}
		}
	}
	restartRedis := func() {
		server.Kill()
		server.Run()
	}
	for _, between := range []func(){func() {}, restartRedis} {
		addr := a.addr
		_ = a.end(syscall.SIGKILL)
		between()
		a = beginAt(t, addr, dir, env).awaitReady()
		restartRedis()
		for _, p := range []*process{a, b} {
			answers(p)
			if strings.Contains(p.log.String(), waited) {
				t.Fatalf("a daemon that was killed and started again was waited for:\n%s", p.log)
			}
		}
	}
	if !strings.Contains(a.log.String(), "earlier life of this daemon was killed") {
		t.Errorf("the log does not say that its earlier life was killed:\n%s", a.log)
	}
}
