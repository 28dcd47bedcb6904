//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
)

// Bit-maps that live in Redis go to the archive and come back to an empty Redis, with a
// daemon and without.
func TestArchiveOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	env := append(redisEnv(redis.Addr), "URIFILTER_MONGODB_URI="+mongotest.Start(t))
	dir := t.TempDir()
	p := start(t, dir, env)
	asking := append([]string{"URIFILTER_LISTEN=" + p.addr}, env...)
	p.wantFresh(0, 1000, 1000)
	out, errOut := mustCommand(t, dir, asking, "bitmap", "update")
	mustContain(t, errOut, "asking the daemon at http://"+p.addr+": it runs here")
	wantAbout(t, out, "uri: written, version uri-1, ", 1000)
	p.wantFresh(1000, 1500, 500)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
	out, errOut = mustCommand(t, dir, asking, "bitmap", "update")
	mustContain(t, errOut, "opening the store in redis: no daemon answers at http://"+p.addr)
	wantAbout(t, out, "uri: written, version uri-2, ", 1500)

	redis.Kill()
	redis = redistest.Start(t)
	env = append(env, "URIFILTER_REDIS_ADDRS="+redis.Addr)
	p = start(t, dir, env)
	p.waitLog("filter restored from the archive")
	p.wantFresh(0, 1600, 100)
	if status, text, _ := p.get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, text)
	}
}

// A daemon that took items and is gone cannot put them back into Redis; what it wrote to
// the archive can. The daemon that is left never heard of them.
func TestRedisIsHealedFromTheArchive(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	env := append(archived(mongotest.Start(t)), "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+redis.Addr)
	first, second := start(t, t.TempDir(), env), start(t, t.TempDir(), env)
	first.wantFresh(0, 2000, 2000)
	first.mustPost("/api/v1/filters/uri/writeback", "", 200)
	_ = first.end(syscall.SIGKILL)
	redis.CLI("flushall")
	second.wantFreshSoon(0, 2000, 0)
	second.wantFresh(2000, 3000, 1000)
	redis.Kill() // without persistence: it comes back empty
	redis.Run()
	second.wantFreshSoon(0, 3000, 0)
}

// wantFreshSoon is wantFresh, once the daemon answers: while it heals it refuses.
func (p *process) wantFreshSoon(from, to, want int) {
	p.t.Helper()
	p.waitReady(2 * time.Minute)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		status, _, err := p.post(context.Background(), "/api/v1/filter", list(p.t, fmt.Sprintf("https://example.com/%d", from)))
		if err == nil && status == http.StatusOK {
			p.wantFresh(from, to, want)
			return
		}
	}
	p.t.Fatalf("it does not get well\n%s", p.log)
}
