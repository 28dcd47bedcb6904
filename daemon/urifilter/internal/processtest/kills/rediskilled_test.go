//go:build linux

package kills_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A daemon that was killed and restarted knows that its earlier process is dead, and tells the
// others: no daemon waits for it when Redis loses its data, whether before or after.
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
		testserver.Await(t, "an answer", func() bool {
			status, _, err := p.Post(context.Background(), "/api/v1/filter", processtest.List(t, "https://example.com/"))
			return err == nil && status == http.StatusOK
		}, p.Log)
	}
	restartRedis := func() {
		server.Kill()
		server.Run()
	}
	// If a busy machine takes longer to restart it than others wait for a silent daemon, it is killed
	// once more.
	var killed []string
	kill := func(between func()) (quick bool) {
		addr, before := a.Addr, fmt.Sprintf(":%d:", a.Cmd.Process.Pid) // as members are named: host, process, life
		_ = a.End(syscall.SIGKILL)
		at := time.Now()
		between()
		a = processtest.BeginAt(t, addr, dir, env).AwaitReady()
		if quick = time.Since(at) < members.PeerDead-2*members.PollEvery; quick {
			killed = append(killed, before)
		}
		return quick
	}
	for _, between := range []func(){func() {}, restartRedis} {
		for tries := 1; !kill(between); tries++ {
			if tries == 100 {
				t.Fatalf("it was never up again within %s", members.PeerDead)
			}
		}
		restartRedis()
		for _, p := range []*processtest.Process{a, b} {
			answers(p)
			for line := range strings.Lines(p.Log.String()) {
				// On a busy machine a live daemon can be late, too.
				if strings.Contains(line, waited) && slices.ContainsFunc(killed, func(who string) bool { return strings.Contains(line, who) }) {
					t.Fatalf("of %v, which were killed and started again, one was waited for:\n%s", killed, p.Log)
				}
			}
		}
	}
	if !strings.Contains(a.Log.String(), "previous process of this daemon was killed") {
		t.Errorf("the log does not say that its earlier life was killed:\n%s", a.Log)
	}
}
