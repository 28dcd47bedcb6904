// Package mysql installs the MariaDB of the distribution for filters with store: mysql: with every
// commit on disk, a database, and a user of the daemons with a password. The settings are in our
// own file, which is read after those of the distribution. A server with databases of others is
// left alone, unless it is to be adopted. It sets up neither replicas nor clusters, nor TLS: such a
// server is named in the daemon's settings (mysql.addr).
package mysql

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Options configure the server.
type Options struct {
	// Port to listen on; 0: 3306.
	Port int
	// Bind are addresses of the host to listen on besides 127.0.0.1, for other filter hosts.
	Bind []string
	// Adopt takes over a server with databases of others: it gets our settings, which affect the
	// others, and is restarted if it lacks them.
	Adopt bool
}

const (
	pkg  = "mariadb-server"
	unit = "mariadb"
	// settingsPath is read after Debian's 50-server.cnf, in the order of the names.
	settingsPath = "/etc/mysql/mariadb.conf.d/90-urifilter.cnf"
	passwordPath = "/etc/mysql/urifilter.password"
	// name is that of the database and of the user, the default of the daemon's settings.
	name = "urifilter"
	// privileges of the user: docs/mysql.md.
	privileges = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"
)

// Server is one host's server during one run.
type Server struct{ options Options }

// New completes options that come from a valid inventory.
func New(o Options) *Server {
	o.Port = cmp.Or(o.Port, 3306)
	o.Bind, _ = address.Bind(o.Bind)
	return &Server{options: o}
}

// Package is the name of the server's package.
func (s *Server) Package() string { return pkg }

// Steps returns the steps that install the server, configure it, and prove that daemons can use it.
func (s *Server) Steps(packages *apt.System) []step.Step {
	return []step.Step{packages.Install("mysql: package", pkg), s.configuration(), s.service(), s.user(), s.proof()}
}

// bind returns the value of bind_address.
func (s *Server) bind() string {
	return strings.Join(append([]string{"127.0.0.1"}, s.options.Bind...), ",")
}

// text returns our file.
func (s *Server) text() string {
	return fmt.Sprintf(`# Written by the urifilter toolkit, which rewrites it when it differs.
[mariadbd]
# Filter hosts reach it here, and nobody else should: a firewall is not ours.
bind_address = %s
port = %d
# An answer of the daemon is on disk: it refuses a server with another value.
innodb_flush_log_at_trx_commit = 1
`, s.bind(), s.options.Port)
}

// sql runs a statement as the system's root, who is also the server's, and returns its rows. If it
// is secret, its text is not logged.
func sql(ctx context.Context, h host.Host, statement string, secret bool) (string, error) {
	out, err := h.Run(ctx, host.Command{Script: "printf %s " + host.Quote(statement) + " | mariadb --batch --skip-column-names", Root: true, Secret: secret})
	return strings.TrimSpace(out.Stdout), err
}

// configuration writes our file.
func (s *Server) configuration() step.Wish {
	return step.NewWish("mysql: configuration", func(ctx context.Context, h host.Host) (*step.Change, error) {
		wish := host.File{Path: settingsPath, Content: s.text()}
		now, there, err := host.ReadFile(ctx, h, settingsPath)
		if err != nil || there && wish.Same(now) {
			return nil, err
		}
		if !there {
			if err := s.mayTake(ctx, h); err != nil {
				return nil, err
			}
		}
		return &step.Change{Summary: "write " + settingsPath, Diff: diff.Unified(wish.Path, now.Content, wish.Content), Apply: func(ctx context.Context) error {
			if err := s.fits(ctx, h); err != nil {
				return err
			}
			return host.WriteFile(ctx, h, wish)
		}}, nil
	})
}

var versionPattern = regexp.MustCompile(`Ver ([0-9]+)\.([0-9]+)`)

// fits requires a version that accepts the settings of our file.
func (s *Server) fits(ctx context.Context, h host.Host) error {
	out, err := h.Run(ctx, host.Command{Script: "mariadbd --version", Look: true})
	if err != nil {
		return err
	}
	m := versionPattern.FindStringSubmatch(out.Stdout)
	if m == nil {
		return fmt.Errorf("mariadbd --version wrote %q", out.Stdout)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	before := func(a, b int) bool { return major < a || major == a && minor < b }
	switch {
	case before(10, 5):
		return fmt.Errorf("MariaDB %d.%d: filters need 10.5 or later\nhint: a newer release of the system has it", major, minor)
	case before(10, 11) && strings.Contains(s.bind(), ","):
		return fmt.Errorf("MariaDB %d.%d cannot listen on %s: only 10.11 and later take a list of addresses\nhint: give the role mysql to a host with a newer release of the system; this one can serve only filters on the same host, without mysql.bind in the inventory", major, minor, s.bind())
	}
	return nil
}

// mayTake says why a server that we have not configured yet must not be taken over.
func (s *Server) mayTake(ctx context.Context, h host.Host) error {
	u, err := host.LookAtUnit(ctx, h, unit+".service")
	if err != nil || s.options.Adopt || !u.Active {
		return err
	}
	others, err := sql(ctx, h, "select group_concat(schema_name) from information_schema.schemata where schema_name not in ('information_schema', 'mysql', 'performance_schema', 'sys', 'test', '"+name+"')", false)
	switch {
	case err != nil:
		return fmt.Errorf("MariaDB does not answer root at its socket: %w%s", err, elsewhere)
	case others != "NULL":
		return fmt.Errorf("MariaDB holds databases of other applications: %s%s", others, elsewhere)
	}
	return nil
}

const elsewhere = "\nhint: give the filters a server of their own (role mysql on another host), or name this one in the settings (mysql.addr, mysql.password_file; `urifilter mysql grant`), or let the toolkit set it up with mysql.adopt in the inventory"
