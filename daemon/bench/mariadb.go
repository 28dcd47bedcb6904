package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// kindsOverMariaDB measures exact filters in a MariaDB beside a bloom filter in the same daemon's
// own store. Both are synced before an answer.
func kindsOverMariaDB(s settings) error {
	if _, err := exec.LookPath("mariadbd"); err != nil {
		fmt.Println("\nkinds in MariaDB: mariadbd is not installed (Debian: mariadb-server-core); left out")
		return nil
	}
	db, err := startMariaDB(s)
	if err != nil {
		return err
	}
	defer db.stop()
	srv, err := startServer(s, "always", "URIFILTER_MYSQL_ADDR="+db.socket)
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

type mariaDB struct {
	cmd         *exec.Cmd
	dir, socket string
}

// startMariaDB starts a server with its default durability and a user urifilter, who needs no
// password, and waits until its socket exists.
func startMariaDB(s settings) (db mariaDB, err error) {
	// Not in the scratch folder: the path of a socket may have only about a hundred bytes.
	if db.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return db, err
	}
	defer func() {
		if err != nil {
			db.stop()
		}
	}()
	data, err := filepath.Abs(filepath.Join(s.dir, "mariadb"))
	if err != nil {
		return db, err
	}
	if err := os.RemoveAll(data); err != nil {
		return db, err
	}
	common := []string{"--no-defaults", "--datadir=" + data}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root")
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return db, err
	}
	if err := mysqltest.Bootstrap(exec.Command("mariadbd", common...)); err != nil {
		return db, err
	}
	db.socket = filepath.Join(db.dir, "socket")
	setup := filepath.Join(db.dir, "setup.sql")
	if err := os.WriteFile(setup, []byte("create database if not exists urifilter;\n"+
		"create user if not exists urifilter@localhost;\ngrant all on urifilter.* to urifilter@localhost;\n"), 0o600); err != nil {
		return db, err
	}
	var log bytes.Buffer
	db.cmd = exec.Command("mariadbd", append(common, "--skip-networking", "--socket="+db.socket, "--init-file="+setup,
		"--pid-file="+filepath.Join(db.dir, "pid"), "--innodb-buffer-pool-size=1G")...)
	db.cmd.Stderr = &log
	if err := db.cmd.Start(); err != nil {
		return db, err
	}
	for range 600 {
		if conn, err := net.Dial("unix", db.socket); err == nil {
			return db, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return db, fmt.Errorf("mariadbd does not answer after 30 s:\n%s", log.Bytes())
}

// stop ends the server and removes its socket; its data goes with the scratch folder.
func (db mariaDB) stop() {
	if db.cmd != nil && db.cmd.Process != nil {
		_ = db.cmd.Process.Signal(syscall.SIGTERM)
		_ = db.cmd.Wait()
	}
	_ = os.RemoveAll(db.dir)
}
