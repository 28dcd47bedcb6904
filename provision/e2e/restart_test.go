package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/report"
)

// tryUnderLoad: while crawlers call without a break, neither a restart by systemd or by the
// toolkit, nor an upgrade, nor an upgrade to a release that does not start and is rolled back
// loses a call or an item; with the host's own store, and with Redis. The same holds for a
// deployment that makes the daemon call Redis by TLS, and for a renewal of its certificates.
func tryUnderLoad(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "own", Release: "bookworm"}, {Name: "shared", Release: "trixie", Roles: "filter, redis"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 10000000",
	})
	l.WriteInventory(t, strings.Replace(l.Inventory(t), "{name: own,", "{name: own, settings: {store: embedded},", 1))
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	l.Must(t, "deploy")

	own := startLoad(t, "embedded", l.Crawler("own", 8000, token))
	shared := startLoad(t, "redis", l.Crawler("shared", 8000, token))
	round := func(what string, do func()) {
		t.Helper()
		own.more(t, 100)
		shared.more(t, 100)
		own.pause()
		shared.pause()
		do()
		own.more(t, 100)
		shared.more(t, 100)
		t.Logf("%s: %s; %s", what, own.pause(), shared.pause())
	}
	for range 3 {
		round("systemctl restart", func() {
			l.Sh(t, "own", "systemctl restart urifilter")
			l.Sh(t, "shared", "systemctl restart urifilter")
		})
	}
	inventory := string(read(t, filepath.Join(l.Dir, "configs", "hosts.yaml")))
	l.WriteInventory(t, inventory+"redis: {tls: true}\n")
	round("deploy that has the daemon call Redis by TLS", func() {
		want(t, l.Mage(t, "plan", "-exitCode"), fleet.CodeChanges, "write /etc/redis/urifilter.pem: a new certificate, of an authority that is made in", "close the plain port 6379")
		want(t, l.Must(t, "deploy"), 0, "close the plain port 6379: every filter host calls by TLS")
	})
	if got := l.Sh(t, "shared", "ss -Hltn | awk '{print $4}' | grep -E ':(6379|6380)$' | sort; stat -c '%a %U:%G' /etc/urifilter/tls.pem /etc/redis/urifilter.pem; redis-cli ping 2>&1 || :"); strings.Contains(got, ":6379\n") || !strings.Contains(got, "127.0.0.1:6380\n640 root:urifilter\n640 root:redis\nCould not connect") {
		t.Errorf("Redis with TLS: %s", got)
	}
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"own": report.OK, "shared": report.OK})
	round("certificates:renew", func() {
		pid := l.Sh(t, "shared", "systemctl show -p MainPID --value urifilter redis-server")
		r := l.Must(t, "certificates:renew", "-v")
		want(t, r, 0, "write /etc/redis/urifilter.pem: a new certificate, as a renewal was asked for", "write /etc/urifilter/tls.pem: a new certificate", "reload: ")
		if now := l.Sh(t, "shared", "systemctl show -p MainPID --value urifilter redis-server"); now != pid {
			t.Errorf("a renewal restarted something: %s, before %s", now, pid)
		}
		if strings.Contains(r.Text(), "PRIVATE KEY") {
			t.Error("a key is shown")
		}
	})
	round("urifilter:restart", func() { l.Must(t, "urifilter:restart") })
	round("deploy of another build", func() { l.Must(t, "deploy", "-binary="+l.Another(t, "second")) })
	round("deploy of a release that exits at once", func() {
		for _, host := range []string{"own", "shared"} {
			if r := l.Mage(t, "deploy", "-hosts="+host, "-binary="+l.Broken(t, programs.Exit)); r.Code != fleet.CodeFailed || !strings.Contains(r.Text(), "rolled back: release") {
				t.Errorf("on %s: exit code %d", host, r.Code)
			}
		}
	})
	round("urifilter:rollback", func() { l.Must(t, "urifilter:rollback") })
	own.done(t)
	shared.done(t)
}
