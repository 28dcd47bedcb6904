package mysql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/mysql"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

func server(t *testing.T, o mysql.Options) (*mysql.Server, []step.Step) {
	t.Helper()
	s := mysql.New(o)
	return s, s.Steps(apt.New(apt.Options{}))
}

// From nothing to a server that daemons can use, over the network and after a reboot; what others
// changed is put right, and a server with databases of others is left alone.
func TestSystemFromNothing(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	s, steps := server(t, mysql.Options{Bind: []string{h.Sandbox.Address}})
	if _, err := s.Password(t.Context(), h); !errors.Is(err, secret.ErrNoPassword) {
		t.Errorf("password before: %v", err)
	}
	if plan := hosttest.Plan(t, h, steps); len(plan) != 4 {
		t.Errorf("plan: %q", plan)
	}
	hosttest.Must(t, h, steps)
	password, err := s.Password(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	as := "MYSQL_PWD=" + password + " mariadb --no-defaults -N -h " + h.Sandbox.Address + " -u urifilter urifilter -e "
	if got := h.Sh(t, as+"'create table x (a int); insert into x values (7); select a from x'"); got != "7" {
		t.Errorf("over the network: %s", got)
	}
	if got := h.Sh(t, as+"'select 1 from mysql.global_priv' 2>&1 || :"); !strings.Contains(got, "denied") {
		t.Errorf("the user sees more than the database: %s", got)
	}
	if got := h.Sh(t, "runuser -u nobody -- cat /etc/mysql/urifilter.password 2>&1 || :"); !strings.Contains(got, "Permission denied") {
		t.Errorf("others read the password: %s", got)
	}
	if got := h.Sh(t, "grep -rl "+password+" /etc /var/log /tmp /run 2>/dev/null"); got != "/etc/mysql/urifilter.password" {
		t.Errorf("the password is in\n%s", got)
	}
	if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
		t.Errorf("again, changed: %q", changed)
	}
	h.Sh(t, `mariadb -e "set global innodb_flush_log_at_trx_commit = 2; revoke insert on urifilter.* from urifilter"`)
	if changed := hosttest.Must(t, h, steps); len(changed) != 2 {
		t.Errorf("after somebody changed it, changed: %q", changed)
	}
	if err := h.Sandbox.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = h.Reconnect(t)
	h.Wait(t, as+"'select 1'")
	if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
		t.Errorf("after a reboot, changed: %q", changed)
	}
	if got := h.Sh(t, as+"'select a from x'"); got != "7" {
		t.Errorf("after a reboot: %s", got)
	}

	// A daemon's host gets the password.
	file := secret.PasswordFile("MySQL", "/etc/mysql.password", "daemon", func(ctx context.Context) (string, error) { return s.Password(ctx, h) })
	hosttest.Must(t, h, []step.Step{file})
	if got := h.Sh(t, "cat /etc/mysql.password; stat -c %a:%U:%G /etc/mysql.password"); got != password+"\n640:root:daemon" {
		t.Errorf("the daemon's password: %q", got)
	}

	// A server that others use is left alone, unless it is to be adopted.
	h.Sh(t, `rm /etc/mysql/mariadb.conf.d/90-urifilter.cnf; mariadb -e "create database shop"`)
	if changed, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), "databases of other applications: shop\nhint: ") || len(changed) != 0 {
		t.Errorf("a server of others: %q, %v", changed, err)
	}
	_, steps = server(t, mysql.Options{Bind: []string{h.Sandbox.Address}, Adopt: true})
	if changed := hosttest.Must(t, h, steps); len(changed) != 1 {
		t.Errorf("adopted, changed: %q", changed)
	}
}
