package e2e_test

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryRefusedSettings: settings that no daemon can run with are refused before a host is touched,
// where they can be recognized by then; otherwise the host is rolled back.
func tryRefusedSettings(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "one"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
		More:     "fleet: {health_timeout: 30s}\n",
	})
	good := l.Inventory(t)
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	crawler := l.Crawler("one", 8000, token)
	l.Must(t, "deploy")
	crawler.Filter(t, "https://example.com/before")
	process := func() string { return l.Sh(t, "one", "systemctl show urifilter -p MainPID --value") }
	before, pid := l.Sh(t, "one", fingerprint), process()
	// Another program occupies a port.
	l.Sh(t, "one", `systemd-run --quiet --unit=squatter perl -MIO::Socket::INET -e 'push @s, IO::Socket::INET->new(LocalPort => 8001, Listen => 1) or die; sleep' && for i in $(seq 1200); do ss -Hltn sport = :8001 | grep -q . && exit; sleep 0.1; done; exit 1`)

	for _, c := range []struct {
		what, settings string
		code           int
		restarted      bool
		says           []string
	}{
		{"unknown key", "no_such_key: 1", fleet.CodeUsage, false, []string{"no_such_key", "hosts.yaml"}},
		{"value out of range", "accept_error_rate: 2", fleet.CodeUsage, false, []string{"accept_error_rate", "hosts.yaml"}},
		{"certificate that does not exist", "tls: {cert_file: /etc/urifilter/none.pem, key_file: /etc/urifilter/none.key}", fleet.CodeFailed, false,
			[]string{"the release refuses the settings of the host", "/etc/urifilter/none.pem", "/etc/urifilter/urifilter.yaml is as it was before"}},
		{"port in use", "listen: '0.0.0.0:8001'", fleet.CodeFailed, true,
			[]string{"urifilter.socket cannot listen", "0.0.0.0:8001): Address already in use", "hint: ss -ltnp", "rolled back: release"}},
		{"store that does not answer", "store: redis, redis: {addrs: ['127.0.0.1:1']}", fleet.CodeFailed, true,
			[]string{"127.0.0.1:1", "rolled back: release"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			settings := "listen: '0.0.0.0:8000', uri_num_scale: 100000, " + c.settings
			if strings.HasPrefix(c.settings, "listen") {
				settings = "uri_num_scale: 100000, " + c.settings
			}
			l.WriteInventory(t, strings.Replace(good, "listen: '0.0.0.0:8000', uri_num_scale: 100000", settings, 1))
			for _, target := range []string{"deploy", "settings:push"} {
				r := l.Mage(t, target)
				want(t, r, c.code, c.says...)
				if now := l.Sh(t, "one", fingerprint); now != before {
					t.Errorf("%s: the host has changed from\n%s\nto\n%s", target, before, now)
				}
				if fresh := crawler.Filter(t, "https://example.com/before"); len(fresh) != 0 {
					t.Errorf("%s: items are forgotten", target)
				}
				if now := process(); (now != pid) != c.restarted {
					t.Errorf("%s: process %s before, %s now", target, pid, now)
				} else {
					pid = now
				}
			}
		})
	}
	l.WriteInventory(t, good)
	if r := l.Must(t, "deploy", "-json"); r.Summary(t).Hosts[0].Changed != 0 {
		t.Error("after all that a deployment changes something")
	}
}
