//go:build linux

package kills_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Two daemons share a Redis, which has all its data on disk. Each of the three is killed while
// callers reserve, commit and release.
func TestSystemReservingOnRedisKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	p := startPair(t, append(processtest.OnRedis(server.Addr), `URIFILTER_FILTERS=[{id: 7, name: jobs, kind: exact}, {id: 8, name: news, kind: timing, expire: 24h}]`))
	c := redistest.Client(t, redis.Options{Addr: server.Addr})
	clock := leasetest.NewClock(func() (time.Time, error) {
		at, err := c.Time(context.Background()).Result()
		return at.Truncate(time.Millisecond), err
	})
	ledgers := map[string]*leasetest.Ledger{"jobs": leasetest.New(2000, clock), "news": leasetest.New(2000, clock)}
	p.reserveUnderKills(t, 12, ledgers, func() { server.Kill(); server.Run() })
}
