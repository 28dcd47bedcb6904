package kills_test

import (
	"context"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Two daemons share a MariaDB. Each of the three processes is killed while callers reserve,
// commit and release.
func TestKill9ReservingMySQL(t *testing.T)       { kill9ReservingMySQL(t, 6) }
func TestSystemKill9ReservingMySQL(t *testing.T) { kill9ReservingMySQL(t, 12) }

func kill9ReservingMySQL(t *testing.T, kills int) {
	t.Parallel()
	server := mysqltest.Start(t)
	p := startPair(t, processtest.OnMySQL(t, server))
	db := server.Open("mysql")
	t.Cleanup(func() { _ = db.Close() })
	clock := leasetest.NewClock(func() (at time.Time, err error) {
		var ms int64
		err = db.QueryRowContext(context.Background(), "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000").Scan(&ms)
		return time.UnixMilli(ms), err
	})
	p.reserveUnderKills(t, kills, map[string]*leasetest.Ledger{"pages": leasetest.New(2000, clock)}, func() { server.Kill(); server.Run() })
}
