package e2e_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/report"
)

// tryAptHeld: while somebody else installs packages on a host, a deployment that needs
// some waits, says for whom, and completes.
func tryAptHeld(t *testing.T) {
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "one", Roles: "filter, redis"}}, Settings: "uri_num_scale: 100000"})
	// It waits for a file before it installs, with the locks in its hands.
	l.Sh(t, "one", "apt-get update -qq; systemd-run -q --unit=other apt-get -y -o DPkg::Pre-Invoke::='touch /run/held; until [ -e /run/go ]; do sleep 0.2; done' install bc")
	l.Sh(t, "one", "for i in $(seq 2400); do [ ! -e /run/held ] || exit 0; sleep 0.1; done; systemctl status other; exit 1")
	run := l.Start(t, "deploy", "-json")
	run.WaitFor(t, "apt: waiting for apt-get (process ")
	l.Sh(t, "one", "touch /run/go")
	r := run.Wait(t)
	want(t, r, 0, "which holds the lock")
	asJSON(t, r)
	statuses(t, r, map[string]report.Status{"one": report.Changed})
	if got := l.Sh(t, "one", "dpkg-query -W -f '${db:Status-Status} ' bc redis-server; systemctl is-active redis-server urifilter"); got != "installed installed active\nactive" {
		t.Errorf("after it: %s", got)
	}
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"one": report.OK})
	unlocked(t, l)
}
