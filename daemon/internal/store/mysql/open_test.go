package mysql

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

func wantError(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in the error\ngot %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), mysqltest.Password) {
		t.Errorf("the password is in %v", err)
	}
}

// A problem is reported with its name and the next step, and nothing is changed.
func TestRefusals(t *testing.T) {
	server := mysqltest.Start(t)
	for name, test := range map[string]struct {
		change func(c *Config)
		wants  []string
	}{
		"password": {func(c *Config) { c.Password = "wrong" }, []string{"Access denied", "hint: check mysql.user and mysql.password_file"}},
		"user":     {func(c *Config) { c.User = "nobody" }, []string{"hint: check mysql.user"}},
		"database": {func(c *Config) { c.Database = "elsewhere" }, []string{"elsewhere", "hint: `urifilter mysql grant` prints"}},
		"nobody":   {func(c *Config) { c.Addr = testserver.Free(t) }, []string{"mysql 127.0.0.1:", "hint: is MariaDB running there?"}},
		"socket":   {func(c *Config) { c.Addr = "/nowhere/socket" }, []string{"mysql /nowhere/socket:", "hint: is MariaDB running there?"}},
		"name":     {func(c *Config) { c.Addr = "no-such-host.invalid:3306" }, []string{"hint: check mysql.addr"}},
		"filters": {func(c *Config) { server.Exec("create table " + c.Database + ".urifilter_filters (a int)") },
			[]string{".urifilter_filters: is of another program", "hint: give urifilter a database of its own (mysql.database)"}},
		"ids": {func(c *Config) { server.Exec("create table " + c.Database + ".urifilter_ids (a int) comment 'my ids'") },
			[]string{`.urifilter_ids: is of another program (its comment is "my ids"`}},
		"newer": {func(c *Config) {
			server.Exec("create table " + c.Database + ".urifilter_ids (a int) comment 'urifilter: ids, format 2'")
		}, []string{"is of a newer urifilter", "hint: update this one"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(server)
			test.change(&c)
			_, err := Open(context.Background(), c)
			wantError(t, err, test.wants...)
		})
	}
	t.Run("privileges", func(t *testing.T) {
		c := config(server)
		name := server.Database("select")
		c.User, c.Database = name, name
		_, err := Open(context.Background(), c)
		wantError(t, err, "CREATE command denied", "hint: `urifilter mysql grant` prints")
	})
}

// A server with wrong settings is refused, at the start and later.
func TestDemands(t *testing.T) {
	server := mysqltest.Start(t, "--log-bin", "--sync-binlog=1")
	c := config(server)
	store, set := opened(t, c)
	for _, test := range []struct{ wrong, right, want string }{
		{"innodb_flush_log_at_trx_commit = 2", "innodb_flush_log_at_trx_commit = 1", "hint: SET GLOBAL innodb_flush_log_at_trx_commit = 1"},
		{"sync_binlog = 0", "sync_binlog = 1", "hint: SET GLOBAL sync_binlog = 1"},
		{"sync_binlog = 7", "sync_binlog = 1", "has a binary log and sync_binlog 7"},
		{"read_only = 1", "read_only = 0", "hint: name the primary in mysql.addr"},
	} {
		server.Exec("set global " + test.wrong)
		_, err := Open(context.Background(), c)
		wantError(t, err, test.want)
		testserver.Await(t, test.wrong+" is seen", func() bool { return store.Ready(context.Background()) != nil })
		_, err = set.Add(context.Background(), storetest.Keys(set, 0, 10), make([]bool, 10))
		if wantError(t, err, test.want); !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrInDoubt) {
			t.Errorf("a batch: %v", err)
		}
		server.Exec("set global " + test.right)
		testserver.Await(t, test.right+" is seen", func() bool { return store.Ready(context.Background()) == nil })
	}
	c.Durable = false
	server.Exec("set global innodb_flush_log_at_trx_commit = 2", "set global sync_binlog = 0")
	other, err := Open(context.Background(), c)
	if err != nil {
		t.Fatalf("not durable: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if got := len(storetest.Add(t, set, nil)); got != 0 {
		t.Error(got)
	}
}

// The servers of a Galera cluster are refused; all others say OFF, or have no such variable.
func TestGaleraIsRefused(t *testing.T) {
	for value, refused := range map[string]bool{"": false, "OFF": false, "0": false, "ON": true, "1": true} {
		if err := checkGalera(value); (err != nil) != refused {
			t.Errorf("wsrep_on %q: %v", value, err)
		} else if refused {
			wantError(t, err, "Galera", "hint: name a MariaDB of its own")
		}
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]string{
		"10.5.0-MariaDB":             "",
		"10.11.19-MariaDB-0+deb12u1": "",
		"5.5.5-10.11.6-MariaDB-log":  "",
		"11.4.2-MariaDB":             "",
		"10.4.30-MariaDB":            "is MariaDB 10.4",
		"8.0.36":                     "is MySQL 8.0.36",
		"8.4.0-0ubuntu0":             "hint: the server must be MariaDB 10.5 or later",
		"5.5.68-MariaDB":             "is MariaDB 5.5",
	} {
		err := checkVersion(version)
		if want == "" && err != nil {
			t.Errorf("%s: %v", version, err)
		} else if want != "" {
			wantError(t, err, want)
		}
	}
}

// The loss of a server during operation is reported at once, and nothing is remembered.
func TestServerAway(t *testing.T) {
	server := mysqltest.Start(t)
	store, set := opened(t, config(server))
	keys := storetest.Keys(set, 0, 10)
	storetest.Add(t, set, keys[:5])
	server.Kill()
	_, err := set.Add(context.Background(), keys, make([]bool, 10))
	for errors.Is(err, engine.ErrInDoubt) { // on a connection from before the kill
		_, err = set.Add(context.Background(), keys, make([]bool, 10))
	}
	if wantError(t, err, "hint: is MariaDB running there?"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a batch: %v", err)
	}
	wantError(t, store.Ready(context.Background()), "hint: is MariaDB running there?")
	_, err = store.Create(context.Background(), spec(2, "other"), storetest.Identity())
	wantError(t, err, "hint: is MariaDB running there?")
	server.Run()
	for i, fresh := range storetest.Add(t, set, keys) {
		if want := i >= 5; fresh != want {
			t.Errorf("item %d is new: %v", i, fresh)
		}
	}
}

// Connections over TLS with certificates on both sides, and over the server's socket.
func TestConnections(t *testing.T) {
	authority := certtest.New(t, "authority")
	pair := authority.Issue(t, "server", time.Hour, "127.0.0.1")
	server := mysqltest.Start(t, "--ssl-ca="+authority.File, "--ssl-cert="+pair.Cert, "--ssl-key="+pair.Key)
	c := config(server)
	server.Exec("alter user " + c.User + "@'127.0.0.1' require x509")
	_, err := Open(context.Background(), c)
	wantError(t, err, "hint: check mysql.user and mysql.password_file, and whether the server wants TLS")
	shown := authority.Issue(t, "daemon", time.Hour)
	open := func(f tlsdial.Files) error {
		var err error
		if c.TLS, err = tlsdial.Open("mysql", f, time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		store, err := Open(context.Background(), c)
		if err == nil {
			err = store.Close()
		}
		return err
	}
	if err := open(tlsdial.Files{CA: authority.File, Cert: shown.Cert, Key: shown.Key}); err != nil {
		t.Error(err)
	}
	wantError(t, open(tlsdial.Files{CA: certtest.New(t, "other").File}), "hint: mysql.tls_ca_file must hold the authority")
	wantError(t, open(tlsdial.Files{CA: authority.File, ServerName: "elsewhere"}), "mysql.tls_server_name")

	server.Exec("create user "+c.User+"@localhost identified by "+mysqltest.Quote(mysqltest.Password),
		"grant "+granted+" on "+c.Database+".* to "+c.User+"@localhost")
	c.TLS, c.Addr = nil, server.Socket()
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// The statements that an administrator runs are sufficient, and can be run repeatedly.
func TestGrants(t *testing.T) {
	server := mysqltest.Start(t)
	o := Options{Addr: server.Addr, User: `it's "me"`, Password: `p'a\"ss`, Database: "odd_name-$1"}
	for range 2 {
		if err := Grant(context.Background(), o, "127.0.0.1", "admin", mysqltest.Password); err != nil {
			t.Fatal(err)
		}
		found, err := Initialize(context.Background(), Config{Options: o, Log: slog.New(slog.DiscardHandler), Durable: true})
		if err != nil || found.Filters != 0 || !strings.Contains(found.Version, "MariaDB") {
			t.Fatalf("%+v, %v", found, err)
		}
	}
	err := Grant(context.Background(), o, "127.0.0.1", "admin", "wrong")
	wantError(t, err, "as admin", "Access denied")
}
