package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/report"
)

// trySiteWithoutNetwork: the bundle that a host with a network has collected is enough for a
// host without one, and a file of it that was damaged on the way is refused before a host is
// touched. At the site, the timer starts the writeback, and Redis and the archive are called by
// TLS.
func trySiteWithoutNetwork(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:      []e2e.Host{{Name: "online"}, {Name: "site", Roles: "filter, redis, mongodb"}},
		Repository: true, Settings: "uri_num_scale: 100000", More: "schedule: {kind: timer}\n",
	})
	bundle := filepath.Join(l.Home, "bundle")
	want(t, l.Must(t, "install:bundle", bundle, "-hosts=online", "-binary="+l.Program(t)), 0, "packages:\n  bundle: ", "release:\n  binary: ")
	if got := l.Sh(t, "online", "dpkg-query -W redis-server ferretdb 2>/dev/null; ls -d /var/cache/urifilter-toolkit /etc/apt/sources.list.d/urifilter* 2>/dev/null; :"); got != "" {
		t.Errorf("the host that has collected has %s", got)
	}

	// The site: one host that can reach nothing but the laptop.
	l.Sh(t, "site", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*; ip route del default")
	head, _, _ := strings.Cut(l.Inventory(t), "  - {name: online")
	_, tail, _ := strings.Cut(l.Inventory(t), "  - {name: site")
	host, _, _ := strings.Cut(tail, "\n")
	inventory := func(bundle string) string {
		return head + "  - {name: site" + host + "\nsettings: {uri_num_scale: 100000}\nredis: {tls: true}\nmongodb: {flavor: ferretdb, tls: true}\nschedule: {kind: timer}\npackages: {bundle: '" + bundle + "'}\nrelease: {binary: '" + bundle + "/urifilter-linux-{arch}'}\n"
	}
	damaged := filepath.Join(l.Home, "damaged")
	if err := os.CopyFS(damaged, os.DirFS(bundle)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(damaged, "debian12-amd64", "redis-tools_*.deb"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text := read(t, files[0])
	text[len(text)/2] ^= 1
	write(t, files[0], string(text))
	l.WriteInventory(t, inventory(damaged))
	want(t, l.Mage(t, "deploy"), fleet.CodeUsage, filepath.Base(files[0])+": it is damaged", "hint: copy it again")
	if got := l.Sh(t, "site", "getent passwd urifilter; ls -d /opt/urifilter /etc/redis 2>/dev/null; :"); got != "" {
		t.Errorf("a host was touched: %s", got)
	}

	l.WriteInventory(t, inventory(bundle))
	l.Must(t, "deploy")
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"site": report.OK})
	if got := l.Sh(t, "site", "systemctl is-active redis-server ferretdb urifilter urifilter-writeback.timer; ls /etc/cron.d/urifilter 2>/dev/null; :"); got != "active\nactive\nactive\nactive" {
		t.Errorf("the site: %s", got)
	}

	// The unit that the timer starts writes a sound version.
	got := l.Sh(t, "site", `printf 'http://example.com/%d\n' 1 2 3 | /opt/urifilter/current/urifilter filter >/dev/null
systemctl start urifilter-writeback.service && runuser -u urifilter -- /opt/urifilter/current/urifilter bitmap verify --config /etc/urifilter/urifilter.yaml`)
	if !strings.Contains(got, "uri-2: sound; ") {
		t.Errorf("the archive: %s", got)
	}

	// Redis and the archive, set up with TLS from the start, accept no other connections.
	if got := l.Sh(t, "site", `ss -Hltn | awk '{print $4}' | grep -E ':(6379|6380|27017)$' | sort
grep -c 'tls: true' /etc/urifilter/urifilter.yaml; stat -c '%a %U:%G' /etc/urifilter-mongodb-tls/server.pem
redis-cli -p 6380 ping 2>&1 | head -1; journalctl -u ferretdb -q -o cat | grep -c 'Listening on TLS'`); !strings.HasPrefix(got, "127.0.0.1:27017\n127.0.0.1:6380\n2\n640 root:ferretdb\n") || strings.Contains(got, "PONG") {
		t.Errorf("the site's servers: %s", got)
	}
	want(t, l.Must(t, "certificates:renew"), 0, "write /etc/urifilter-mongodb-tls/server.pem: a new certificate")
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"site": report.OK})
	if got := l.Sh(t, "site", "systemctl start urifilter-writeback.service && systemctl is-active urifilter redis-server ferretdb"); got != "active\nactive\nactive" {
		t.Errorf("after a renewal: %s", got)
	}
	unlocked(t, l)
}
