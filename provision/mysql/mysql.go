// Package mysql installs the MariaDB of the distribution for filters with store: mysql: with every
// commit on disk, a database, and a user of the daemons with a password. The settings are in our
// own file, which is read after those of the distribution. A server with databases of others is
// left alone, unless it is to be adopted. It sets up neither replicas nor clusters, nor TLS: such a
// server is named in the daemon's settings (mysql.addr).
package mysql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/secret"
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

// sql runs a statement as the system's root, who is also the server's, and returns its rows.
func sql(ctx context.Context, h host.Host, statement string) (string, error) {
	out, err := h.Run(ctx, host.Command{Script: "printf %s " + host.Quote(statement) + " | mariadb --batch --skip-column-names", Root: true})
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
			if !there {
				if err := s.mayTakeDown(ctx, h); err != nil {
					return err
				}
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
	others, err := sql(ctx, h, "select group_concat(schema_name) from information_schema.schemata where schema_name not in ('information_schema', 'mysql', 'performance_schema', 'sys', 'test', '"+name+"')")
	switch {
	case err != nil:
		return fmt.Errorf("MariaDB does not answer root at its socket: %w%s", err, elsewhere)
	case others != "NULL":
		return fmt.Errorf("MariaDB holds databases of other applications: %s%s", others, elsewhere)
	}
	return nil
}

// mayTakeDown is mayTake for a server that is down: it is started as it is, to tell whose databases it has. One of
// others is stopped again. One that does not start serves nobody, and may need our file for that: another program has its
// port, for example.
func (s *Server) mayTakeDown(ctx context.Context, h host.Host) error {
	u, err := host.LookAtUnit(ctx, h, unit+".service")
	if err != nil || s.options.Adopt || u.Active {
		return err
	}
	if err := host.Systemctl(ctx, h, "start", unit+".service"); err != nil {
		if errors.As(err, new(*host.CommandError)) {
			return nil
		}
		return err
	}
	if err := s.mayTake(ctx, h); err != nil {
		return errors.Join(err, host.Systemctl(context.WithoutCancel(ctx), h, "stop", unit+".service"))
	}
	return nil
}

const elsewhere = "\nhint: give the filters a server of their own (role mysql on another host), or name this one in the settings (mysql.addr, mysql.password_file; `urifilter mysql grant`), or let the toolkit set it up with mysql.adopt in the inventory"

// service enables and starts the server, and restarts one that runs with other settings than its files.
func (s *Server) service() step.Wish {
	return step.Running("mysql: service", unit, s.differing, func(ctx context.Context, h host.Host, verb string) error {
		return host.Systemctl(ctx, h, verb, unit+".service")
	})
}

// differing says how the running server differs from our file, "" if it does not.
func (s *Server) differing(ctx context.Context, h host.Host) (string, error) {
	got, err := sql(ctx, h, "select concat_ws(' ', coalesce(@@bind_address, '*'), @@port, @@innodb_flush_log_at_trx_commit)")
	if err != nil {
		return "", fmt.Errorf("MariaDB does not answer root at its socket: %w%s", err, host.UnitLog(ctx, h, unit+".service"))
	}
	if want := fmt.Sprintf("%s %d 1", s.bind(), s.options.Port); got != want {
		return fmt.Sprintf("bind_address, port and innodb_flush_log_at_trx_commit are %s, not %s", got, want), nil
	}
	return "", nil
}

// proof logs in as daemons do.
func (s *Server) proof() step.Proof {
	return step.NewProof("mysql: answers", func(ctx context.Context, h host.Host) error {
		if differ, err := s.differing(ctx, h); err != nil {
			return err
		} else if differ != "" {
			return fmt.Errorf("MariaDB: %s, whatever %s says\nhint: something else sets it: look for it in /etc/mysql", differ, settingsPath)
		}
		if why, err := s.login(ctx, h); err != nil {
			return err
		} else if why != "" {
			return fmt.Errorf("MariaDB: %s", why)
		}
		return nil
	})
}

// passwordFile holds the password of the daemons' user.
var passwordFile = secret.File{Path: passwordPath, Temporary: "/etc/mysql/.urifilter.XXXXXX", Owner: "root:root", Mode: "0600"}

// makeUser tells the server the password in the file, and hides it from everyone else.
const makeUser = `secret=$(cat ` + passwordPath + `) && printf "
create database if not exists ` + name + `;
create user if not exists '` + name + `'@'%%' identified by '$secret';
alter user '` + name + `'@'%%' identified by '$secret';
grant ` + privileges + ` on ` + name + `.* to '` + name + `'@'%%';
" | mariadb`

// logIn tries the password in the file over the network, as daemons do. The password is in no
// process list.
const logIn = `secret=$(cat ` + passwordPath + `) && printf 'select 1' | MYSQL_PWD="$secret" mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port=%d --user=` + name + ` --batch --skip-column-names ` + name + ` 2>&1`

// Password reads the password of the daemons' user from the server's host, or returns secret.ErrNoPassword.
func (s *Server) Password(ctx context.Context, h host.Host) (string, error) {
	return secret.Read(ctx, h, passwordPath, "remove the file, and another is made")
}

// user makes the password, the database, and the user who may use it.
func (s *Server) user() step.Wish {
	return step.NewWish("mysql: database and user", func(ctx context.Context, h host.Host) (*step.Change, error) {
		change := &step.Change{Summary: "make the database and the user " + name, Apply: func(ctx context.Context) error {
			script := makeUser
			if _, err := s.Password(ctx, h); errors.Is(err, secret.ErrNoPassword) {
				script = "(" + passwordFile.Script() + ") && " + makeUser
			} else if err != nil {
				return err
			}
			_, err := h.Run(ctx, host.Command{Script: script, Root: true, Secret: true})
			return err
		}}
		if _, err := s.Password(ctx, h); errors.Is(err, secret.ErrNoPassword) {
			return change, nil
		} else if err != nil {
			return nil, err
		}
		u, err := host.LookAtUnit(ctx, h, unit+".service")
		if err != nil || !u.Active {
			return nil, err // the step before reports it
		}
		why, err := s.login(ctx, h)
		if err != nil || why == "" {
			return nil, err
		}
		return change, nil
	})
}

// login tries to log in as daemons do, and says why that is not enough; "": it is.
func (s *Server) login(ctx context.Context, h host.Host) (string, error) {
	out, err := h.Run(ctx, host.Command{Script: fmt.Sprintf(logIn, s.options.Port), Root: true, Secret: true, OK: []int{1}})
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		return strings.TrimSpace(out.Stdout), nil
	}
	grants, err := sql(ctx, h, "show grants for '"+name+"'@'%'")
	if err != nil {
		return "", err
	}
	if !strings.Contains(grants, "GRANT "+privileges+" ON `"+name+"`.*") {
		return "the user " + name + " lacks privileges: " + privileges, nil
	}
	return "", nil
}
