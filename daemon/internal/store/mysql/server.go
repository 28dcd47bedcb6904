package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Options say which server to use, and how to log in. They are those of the settings.
type Options struct {
	Addr     string // host:port, or the path of a socket
	User     string
	Password string
	Database string
	TLS      *tlsdial.Dialer // nil: connections are plain
}

const (
	dialTimeout = 5 * time.Second
	// lockTimeout is how long a batch waits for rows that another batch holds, before it is retried.
	lockTimeout = 10 * time.Second
	// replyTimeout is how long the server may take for a piece of a batch.
	replyTimeout = 20 * time.Second
	// idleTimeout is how long the server keeps an idle connection and what it has locked, such as
	// that of a daemon whose machine is gone.
	idleTimeout = time.Minute
	// maxConnections are for batches; further ones wait. MariaDB accepts 151 in all by default.
	maxConnections = 16
)

// sessionSettings make batches the same on every server, whatever its own settings say.
func sessionSettings() map[string]string {
	return map[string]string{
		"autocommit": "1",
		"sql_mode":   "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		// Rows are locked, and not the gaps between them: batches whose keys are in order then
		// wait for each other, but do not deadlock.
		"tx_isolation":                      "'READ-COMMITTED'",
		"innodb_lock_wait_timeout":          strconv.Itoa(int(lockTimeout.Seconds())),
		"wait_timeout":                      strconv.Itoa(int(idleTimeout.Seconds())),
		"idle_write_transaction_timeout":    strconv.Itoa(int(idleTimeout.Seconds())),
		"in_predicate_conversion_threshold": "0", // long lists are looked up in the index
	}
}

// open makes a pool of connections, but does not connect. reply is how long an answer may take;
// 0: as long as the context says.
func (o Options) open(session map[string]string, reply time.Duration) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Addr, c.DBName = o.User, o.Password, o.Addr, o.Database
	c.Net = "tcp"
	if strings.HasPrefix(o.Addr, "/") {
		c.Net = "unix"
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = dialTimeout, reply, reply
	c.Params = maps.Clone(session)
	c.ConnectionAttributes = "program_name:urifilter"
	c.Logger = &mysql.NopLogger{} // what matters is returned as an error
	if o.TLS != nil {
		host, _, _ := net.SplitHostPort(o.Addr)
		renew := func(_ context.Context, c *mysql.Config) error {
			c.TLS = o.TLS.Config(host)
			return nil
		}
		if err := c.Apply(mysql.BeforeConnect(renew)); err != nil {
			return nil, err
		}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql %s: %w", o.Addr, err)
	}
	return sql.OpenDB(connector), nil
}

// demandError says which requirement a server does not meet, and how to mend that.
type demandError struct{ text string }

func (e *demandError) Error() string { return e.text }

var versionPattern = regexp.MustCompile(`^(?:5\.5\.5-)?([0-9]+)\.([0-9]+)`)

// checkVersion requires INSERT ... RETURNING, which MySQL and older versions of MariaDB lack.
func checkVersion(version string) error {
	m := versionPattern.FindStringSubmatch(version)
	if !strings.Contains(version, "MariaDB") || m == nil {
		return &demandError{fmt.Sprintf("is MySQL %s, which cannot tell which rows of a statement were new\nhint: the server must be MariaDB 10.5 or later (INSERT ... RETURNING)", version)}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 10 || major == 10 && minor < 5 {
		return &demandError{fmt.Sprintf("is MariaDB %s.%s, which cannot tell which rows of a statement were new\nhint: it must be 10.5 or later (INSERT ... RETURNING)", m[1], m[2])}
	}
	return nil
}

// demand checks the version and the settings of the server.
func (s *Store) demand(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	var version, readOnly, binlog, format string
	var flush, sync int
	var packet int64
	err := db.QueryRowContext(ctx, "select version(), @@global.read_only, @@global.log_bin, @@global.binlog_format, @@global.sync_binlog, @@global.innodb_flush_log_at_trx_commit, @@max_allowed_packet").
		Scan(&version, &readOnly, &binlog, &format, &sync, &flush, &packet)
	if err != nil {
		return err
	}
	galera := "" // servers that were built without it have no such variable
	if err := eachRow(ctx, db, "select variable_value from information_schema.global_variables where variable_name = 'wsrep_on'", func() {}, &galera); err != nil {
		return err
	}
	s.packet.Store(packet)
	if err := checkVersion(version); err != nil {
		return err
	}
	if err := checkGalera(galera); err != nil {
		return err
	}
	switch {
	case readOnly != "0" && readOnly != "OFF":
		return &demandError{"is read-only\nhint: name the primary in mysql.addr, or set read_only = 0 there"}
	case binlog == "1" && format == "STATEMENT":
		return &demandError{"has binlog_format STATEMENT, which does not take INSERT IGNORE at READ COMMITTED\nhint: set binlog_format = MIXED, which is its default"}
	case flush != 1 && s.opt.Durable:
		return &demandError{fmt.Sprintf("has innodb_flush_log_at_trx_commit %d: a crash of it would lose what was answered\nhint: SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its settings; or durability: interval, if a second may be lost", flush)}
	case binlog == "1" && sync != 1 && s.opt.Durable:
		// After a crash the server takes back what its binary log lacks, whatever InnoDB has.
		return &demandError{fmt.Sprintf("has a binary log and sync_binlog %d: a crash of its machine would lose what was answered\nhint: SET GLOBAL sync_binlog = 1, and the same in its settings; or durability: interval, if that may be lost", sync)}
	}
	return nil
}

// checkGalera refuses a server of a Galera cluster, given its wsrep_on: a write of another server of
// the cluster can be acknowledged and not be seen here yet, and two servers take the same row. An
// item could be new twice.
func checkGalera(wsrepOn string) error {
	if wsrepOn != "ON" && wsrepOn != "1" {
		return nil
	}
	return &demandError{"is a server of a Galera cluster (wsrep_on), whose servers may not see each other's last writes: an item could be new twice\nhint: name a MariaDB of its own, or a primary with replicas, in mysql.addr"}
}

var connectedDesc = prometheus.NewDesc("urifilter_mysql_connected",
	"1 while MariaDB can be reached and meets the requirements, as last seen; it is asked every second.", nil, nil)

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) { ch <- connectedDesc }

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := 1.0
	if s.away != nil || s.fault != nil {
		value = 0
	}
	ch <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, value)
}

// Privileges are what the daemon's user needs on the database: to create, use and drop tables.
const Privileges = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"

// Grants returns the statements by which an administrator creates the database and the user of o,
// who may log in from host, which is in the server's notation: % for all hosts. They do not
// change anything that exists. They contain the password.
func Grants(o Options, host string) []string {
	user := quote(o.User) + "@" + quote(host)
	// In a grant, an underscore in the name of a database stands for any character.
	pattern := strings.ReplaceAll(o.Database, "_", `\_`)
	return []string{
		"CREATE DATABASE IF NOT EXISTS `" + o.Database + "`",
		"CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY " + quote(o.Password),
		"GRANT " + Privileges + " ON `" + pattern + "`.* TO " + user,
	}
}

// quote writes a text as a string of SQL.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// Grant runs Grants on the server of o as an administrator.
func Grant(ctx context.Context, o Options, host, admin, password string) error {
	as := o
	as.User, as.Password, as.Database = admin, password, ""
	db, err := as.open(map[string]string{"sql_mode": "''"}, replyTimeout)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range Grants(o, host) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			what, _, _ := strings.Cut(statement, " IDENTIFIED")
			return fmt.Errorf("mysql %s: as %s: %s: %w", o.Addr, admin, what, err)
		}
	}
	return nil
}

// Initialized is what Initialize has found.
type Initialized struct {
	Version string // of the server
	Made    bool   // tables were missing
	Filters int
}

// Initialize makes the tables that all filters share, as Open does, and returns what it found.
func Initialize(ctx context.Context, c Config) (i Initialized, err error) {
	c.Log = slog.New(slog.DiscardHandler)
	s, err := Open(ctx, c)
	if err != nil {
		return i, err
	}
	defer s.Close()
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return i, c.explain(err)
	}
	return Initialized{Version: s.version, Made: s.made, Filters: len(entries)}, nil
}
