package main

import (
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
)

// kindsOverMariaDB measures exact filters in a MariaDB beside a bloom filter in the same daemon's
// own store. Both are synced before an answer. The daemon's user needs no password at the socket.
func kindsOverMariaDB(s settings) error {
	db := mysqltest.Start(s.stand, "--datadir="+s.stand.TempDir(), "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=96M")
	db.Exec("create database urifilter", "create user urifilter@localhost", "grant all on urifilter.* to urifilter@localhost")
	srv, err := startServer(s, "always", "URIFILTER_MYSQL_ADDR="+db.Socket())
	if err != nil {
		return err
	}
	all := []sample{samples(10_000_000)[0], {kind: "exact", params: configs.Exact{}, store: "mysql", reserve: true}}
	t := report.Table{{"kind", "store", "connections", "items/s", "of bloom", "p50", "p99"}}
	if err := besideBloom(s, &t, srv, "embedded", all); err != nil {
		return err
	}
	s.out.Table("mariadb", "Client, daemon and MariaDB on this machine, half duplicates, bloom in the daemon's own store", t)
	return srv.stop()
}
