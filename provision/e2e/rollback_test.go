package e2e_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryReleases: which releases a host keeps, how an operator rolls back, and that units of an
// older version are replaced while an administrator's own lines beside them stay.
func tryReleases(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "one", Sudo: true}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
	})
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	crawler := l.Crawler("one", 8000, token)
	current := func() string {
		return strings.TrimPrefix(l.Sh(t, "one", "readlink /opt/urifilter/current"), "releases/")
	}
	process := func() string { return l.Sh(t, "one", "systemctl show urifilter -p MainPID --value") }
	runs := func(t *testing.T, id string) {
		t.Helper()
		if got := current(); got != id {
			t.Errorf("current is %s, want %s", got, id)
		}
		if got := l.Sh(t, "one", "readlink /proc/$(systemctl show urifilter -p MainPID --value)/exe"); !strings.HasSuffix(got, "/releases/"+id+"/urifilter") {
			t.Errorf("%s runs, want %s", got, id)
		}
		if fresh := crawler.Filter(t, "https://example.com/before"); len(fresh) != 0 {
			t.Error("items are forgotten")
		}
	}

	l.Must(t, "deploy")
	crawler.Filter(t, "https://example.com/before")
	first, pid := current(), process()
	r := l.Mage(t, "urifilter:rollback")
	want(t, r, fleet.CodeFailed, "one: release: find", "hint: ")
	if runs(t, first); process() != pid {
		t.Error("a rollback to nothing restarted the daemon")
	}

	// Five more releases of a year ago: with today's two that is more than are kept.
	l.Sh(t, "one", `cd /opt/urifilter/releases && for day in 01 02 03 04 05; do
	id=202501${day}T000000Z-${day}3456789abc
	mkdir $id && cp `+first+`/urifilter $id/ && sed "s/`+first+`/$id/; s/202[0-9]-[^\"]*Z\"/2025-01-${day}T00:00:00Z\"/g" `+first+`/manifest.json >$id/manifest.json
done`)
	// An older unit, with an administrator's own lines beside it.
	l.Sh(t, "one", `sed -i 's/^RestartSec=.*/RestartSec=7s/; /^ExecStopPost=/d' /etc/systemd/system/urifilter.service
mkdir -p /etc/systemd/system/urifilter.service.d
printf '[Service]\nNice=5\nRestartSec=2s\n' >/etc/systemd/system/urifilter.service.d/local.conf
systemctl daemon-reload`)
	want(t, l.Must(t, "plan", "-v"), 0, "service: units", "-RestartSec=7s", "+RestartSec=500ms")
	l.Must(t, "deploy", "-binary="+l.Another(t, "second"))
	second := current()
	runs(t, second)
	if got := l.Sh(t, "one", "grep ^RestartSec= /etc/systemd/system/urifilter.service; cat /etc/systemd/system/urifilter.service.d/local.conf; systemctl show urifilter -p Nice -p RestartUSec; ps -o ni= -p "+process()); got != "RestartSec=500ms\n[Service]\nNice=5\nRestartSec=2s\nRestartUSec=2s\nNice=5\n  5" {
		t.Errorf("units:\n%s", got)
	}
	list := l.Must(t, "urifilter:releases").Stdout
	if n := strings.Count(list, "one "); n != 5 || !regexp.MustCompile(`(?m)^one +\* +`+second+` +\S`).MatchString(list) || !strings.Contains(list, first) || strings.Contains(list, "20250102T") || !strings.Contains(list, "20250103T") {
		t.Errorf("%d releases:\n%s", n, list)
	}
	if r := l.Must(t, "deploy", "-json", "-binary="+l.Another(t, "second")); r.Summary(t).Hosts[0].Changed != 0 {
		t.Error("the same again changes something")
	}

	// By hand: to the release that was healthy before; and back, to one given by name.
	l.Must(t, "urifilter:rollback")
	runs(t, first)
	plan := l.Must(t, "urifilter:rollback", "-version="+second[:15], "-dryRun")
	want(t, plan, 0, "make "+second+" current in place of "+first)
	runs(t, first)
	l.Must(t, "urifilter:rollback", "-version="+second)
	runs(t, second)
	pid = process()
	want(t, l.Must(t, "urifilter:rollback", "-version="+second), 0)
	want(t, l.Mage(t, "urifilter:rollback", "-version=20240101T"), fleet.CodeFailed, "release 20240101T: not on the host", "hint: it has "+second)
	want(t, l.Mage(t, "urifilter:rollback", "-version=2025"), fleet.CodeFailed, "release 2025: 3 releases begin with it", "hint: it has ")
	if runs(t, second); process() != pid {
		t.Error("refused rollbacks restarted the daemon")
	}

	// A rollback to a broken release does not last: it is rolled back in turn.
	l.Mage(t, "deploy", "-binary="+l.Broken(t, programs.Late))
	runs(t, second)
	broken := l.Sh(t, "one", "cd /opt/urifilter/releases && ls -d 2* | grep -v -e ^2025 -e "+first+" -e "+second)
	want(t, l.Must(t, "urifilter:releases"), 0, broken)
	want(t, l.Mage(t, "urifilter:rollback", "-version="+broken), fleet.CodeFailed, "the daemon does not stay up", "I exit a little later", "rolled back: release "+second+" runs again and is healthy")
	runs(t, second)
	l.Must(t, "urifilter:rollback")
	runs(t, first)
}
