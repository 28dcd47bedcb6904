package e2e_test

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// TestSystemUnderLoad: neither a restart by systemd or by the toolkit, nor an upgrade, nor one
// to a release that does not start and is rolled back, loses a call or an item of crawlers
// that never stop asking; with the store of the host itself, and with Redis.
func TestSystemUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it deploys real hosts")
	}
	t.Parallel()
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "own", Release: "bookworm"}, {Name: "shared", Release: "trixie", Roles: "filter, redis"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 10000000",
		More:     "fleet: {health_timeout: 20s}\n",
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
