//go:build linux

package archive_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Bit-maps that live in Redis go to the archive and come back to an empty Redis, with a
// daemon and without.
func TestArchiveOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	env := append(processtest.OnRedis(redis.Addr), "URIFILTER_MONGODB_URI="+mongotest.Start(t))
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	p.WantFresh(0, 1000, 1000)
	out, errOut := processtest.MustCommand(t, dir, asking, "bitmap", "update")
	processtest.MustContain(t, errOut, "asking the daemon at http://"+p.Addr+": it runs here")
	processtest.WantAbout(t, out, "uri: written, version uri-1, ", 1000)
	p.WantFresh(1000, 1500, 500)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.Log)
	}
	out, errOut = processtest.MustCommand(t, dir, asking, "bitmap", "update")
	processtest.MustContain(t, errOut, "opening the store in redis: no daemon answers at http://"+p.Addr)
	processtest.WantAbout(t, out, "uri: written, version uri-2, ", 1500)

	redis.Kill()
	redis = redistest.Start(t)
	env = append(env, "URIFILTER_REDIS_ADDRS="+redis.Addr)
	p = processtest.Start(t, dir, env)
	p.AwaitLog("filter restored from the archive")
	p.WantFresh(0, 1600, 100)
	if status, text, _ := p.Get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, text)
	}
}

// A filter in quarantine does not prevent others from being written back, and is reported: with
// a daemon and without.
func TestUpdateSkipsWhatIsInQuarantine(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	env := append(processtest.OnRedis(redis.Addr), "URIFILTER_MONGODB_URI="+mongotest.Start(t))
	dir := t.TempDir()
	p := processtest.Start(t, dir, env)
	p.WantFresh(0, 100, 100)
	redis.CLI("hset", "urifilter:filters", "strange", `{"id":77,"kind":"of a newer version"}`)
	p.AwaitLog("filter is in QUARANTINE")
	for status := 0; status != http.StatusServiceUnavailable; { // the line is written a moment later
		var answer string
		var err error
		if status, answer, err = p.Post(context.Background(), "/api/v1/filter", `{"filter_typeid":77,"uri_list":["x"]}`); err != nil {
			t.Fatal(err)
		} else if status == http.StatusServiceUnavailable {
			processtest.MustContain(t, answer, "filter_quarantined")
		}
	}
	if _, text, _ := p.Get("/readyz"); !strings.Contains(text, "strange") {
		t.Errorf("readyz does not name it: %s", text)
	}
	if _, text, _ := p.Get("/metrics"); !strings.Contains(text, `urifilter_filter_quarantined{filter="strange"} 1`) {
		t.Error("metrics do not name it")
	}
	asking := append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
	code, out, errOut := processtest.Command(t, dir, asking, "bitmap", "update")
	if code == 0 || !strings.Contains(out, "uri: written, version uri-1") || !strings.Contains(errOut, "strange: skipped, it is in quarantine") {
		t.Errorf("at the daemon: exit code %d\n%s\n%s", code, out, errOut)
	}
	p.WantFresh(0, 200, 100)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = processtest.Command(t, dir, asking, "bitmap", "update")
	if code == 0 || !strings.Contains(out, "uri: written, version uri-2") || !strings.Contains(errOut, "strange: skipped, it is in quarantine") {
		t.Errorf("without a daemon: exit code %d\n%s\n%s", code, out, errOut)
	}
}

// A daemon that took items and is gone cannot put them back into Redis, but its copy in the
// archive can. The remaining daemon never knew of them.
func TestRedisIsResyncedFromTheArchive(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	env := append(processtest.WithArchive(mongotest.Start(t)), "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+redis.Addr)
	first, second := processtest.Start(t, t.TempDir(), env), processtest.Start(t, t.TempDir(), env)
	first.WantFresh(0, 2000, 2000)
	first.MustPost("/api/v1/filters/uri/writeback", "", 200)
	_ = first.End(syscall.SIGKILL)
	redis.CLI("flushall")
	wantFreshSoon(second, 0, 2000, 0)
	second.WantFresh(2000, 3000, 1000)
	redis.Kill() // without persistence: it comes back empty
	redis.Run()
	wantFreshSoon(second, 0, 3000, 0)
}

// wantFreshSoon is WantFresh, once the daemon answers: during a resync it refuses.
func wantFreshSoon(p *processtest.Process, from, to, want int) {
	p.T.Helper()
	p.AwaitReady()
	testserver.Await(p.T, "it is well again", func() bool {
		status, _, err := p.Post(context.Background(), "/api/v1/filter", processtest.List(p.T, fmt.Sprintf("https://example.com/%d", from)))
		return err == nil && status == http.StatusOK
	}, p.Log)
	p.WantFresh(from, to, want)
}
