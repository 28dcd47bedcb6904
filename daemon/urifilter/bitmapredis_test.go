//go:build linux

package main

import (
	"net/http"
	"syscall"
	"testing"

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
	mustContain(t, out, "uri: written, version uri-1, about 1,000 items")
	p.wantFresh(1000, 1500, 500)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
	out, errOut = mustCommand(t, dir, asking, "bitmap", "update")
	mustContain(t, errOut, "opening the store in redis: no daemon answers at http://"+p.addr)
	mustContain(t, out, "uri: written, version uri-2, about 1,500 items")

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
