//go:build linux

package kills_test

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A daemon that was killed and is started again knows that its earlier life is dead, and
// tells the others: nobody waits for it when Redis loses its data, be it before or after.
func TestNobodyWaitsForAnEarlierLife(t *testing.T) {
	t.Parallel()
	// The file of Redis has heartbeats from before the kills, and brings them back.
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	env := processtest.OnRedis(server.Addr)
	dir := t.TempDir()
	a, b := processtest.Start(t, dir, env), processtest.Start(t, t.TempDir(), env)
	const waited = "do not answer; what only they knew may be new again"
	answers := func(p *processtest.Process) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if status, _, err := p.Post(context.Background(), "/api/v1/filter", processtest.List(t, "https://example.com/")); err == nil && status == http.StatusOK {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no answer:\n%s", p.Log)
			}
		}
	}
	restartRedis := func() {
		server.Kill()
		server.Run()
	}
	for _, between := range []func(){func() {}, restartRedis} {
		addr := a.Addr
		_ = a.End(syscall.SIGKILL)
		between()
		a = processtest.BeginAt(t, addr, dir, env).AwaitReady()
		restartRedis()
		for _, p := range []*processtest.Process{a, b} {
			answers(p)
			if strings.Contains(p.Log.String(), waited) {
				t.Fatalf("a daemon that was killed and started again was waited for:\n%s", p.Log)
			}
		}
	}
	if !strings.Contains(a.Log.String(), "earlier life of this daemon was killed") {
		t.Errorf("the log does not say that its earlier life was killed:\n%s", a.Log)
	}
}
