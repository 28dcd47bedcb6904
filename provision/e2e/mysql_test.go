package e2e_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/report"
)

// tryFiltersInMariaDB: a deployment installs MariaDB on the host with the role mysql, and the
// daemons of two hosts share a filter in it; a second deployment finds nothing to do.
func tryFiltersInMariaDB(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "one", Roles: "filter, mysql"}, {Name: "two"}},
		Settings: "uri_num_scale: 100000, filters: [{id: 1, name: uri}, {id: 7, name: pages, kind: exact, store: mysql}]",
	})
	want(t, l.Must(t, "install:mysql", "-dryRun"), 0, "install mariadb-server", "make the database and the user urifilter")
	l.Must(t, "deploy")
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"one": report.OK, "two": report.OK})
	ask := `printf 'https://example.com/%d\n' 1 2 3 | /opt/urifilter/current/urifilter filter --type pages -q | wc -l`
	if got := l.Sh(t, "one", ask); got != "3" {
		t.Errorf("the first host: %s of 3 items are new", got)
	}
	if got := l.Sh(t, "two", ask); got != "0" {
		t.Errorf("the second host: %s of 3 items are new", got)
	}
	if got := l.Sh(t, "two", "stat -c '%a %U:%G' /etc/urifilter/mysql.password"); got != "640 root:urifilter" {
		t.Errorf("the password is of %s", got)
	}
}
