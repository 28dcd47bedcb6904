package e2e_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryFromNothing: one command turns two fresh hosts, one reached as root and one as a user
// whose sudo asks for a password, into a fleet that answers, with the program built from the
// sources, Redis from apt, and the archive from a repository of packages.
func tryFromNothing(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts: []e2e.Host{
			{Name: "one", Release: "bookworm", Roles: "filter, redis, mongodb"},
			{Name: "two", Release: "trixie", Sudo: true},
		},
		Repository: true, Sources: true,
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
		More:     "fleet: {bake: 5s}\n", // longer than the health check lasts
	})

	// Open to the network without a token: refused before anything is touched.
	r := l.Mage(t, "deploy")
	if r.Code != fleet.CodeUsage || !strings.Contains(r.Text(), "hint: go tool mage settings:token -name=crawler -scopes=filter") {
		t.Fatalf("without tokens: exit code %d\n%s", r.Code, r.Text())
	}
	if got := l.Sh(t, "one", "ls -d /opt/urifilter /etc/urifilter /etc/redis 2>/dev/null || :"); got != "" {
		t.Errorf("a refused deployment made %s", got)
	}
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)

	plan := l.Mage(t, "plan", "-exitCode", "-json")
	if plan.Code != fleet.CodeChanges {
		t.Errorf("plan of fresh hosts: exit code %d", plan.Code)
	}
	if got := l.Sh(t, "two", "ls -d /opt/urifilter /etc/urifilter 2>/dev/null || :"); got != "" {
		t.Errorf("a plan made %s", got)
	}

	first := l.Must(t, "deploy", "-json")
	for _, h := range first.Summary(t).Hosts {
		if h.Status != "changed" {
			t.Errorf("%s: %+v", h.Host, h)
		}
	}
	one, two := l.Crawler("one", 8000, token), l.Crawler("two", 8000, token)
	items := []string{"https://example.com/1", "https://example.com/2"}
	if fresh := one.Filter(t, items...); !slices.Equal(fresh, items) {
		t.Errorf("first sight: new are %q", fresh)
	}
	if fresh := two.Filter(t, append(items, "https://example.com/3")...); !slices.Equal(fresh, []string{"https://example.com/3"}) {
		t.Errorf("at the other host, which shares the store: new are %q", fresh)
	}
	if _, err := l.Crawler("one", 8000, "").Ask("x"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}

	for _, host := range []string{"one", "two"} {
		if got := l.Sh(t, host, "systemctl is-active urifilter.service; systemctl is-enabled urifilter.service urifilter.socket"); got != "active\nenabled\nenabled" {
			t.Errorf("%s: %s", host, got)
		}
		if got := l.Sh(t, host, "cat /etc/cron.d/urifilter; stat -c '%a %U' /etc/cron.d/urifilter"); !regexp.MustCompile(`(?m)^0 0 1 \* \* urifilter .*/opt/urifilter/current/urifilter bitmap update`).MatchString(got) || !strings.HasSuffix(got, "644 root") {
			t.Errorf("%s: crontab:\n%s", host, got)
		}
		if got := l.Sh(t, host, "find /etc/urifilter -type f -perm /o+r ! -name '.*'"); got != "" {
			t.Errorf("%s: anybody reads %s", host, got)
		}
	}
	if status := l.Must(t, "bitmap:status").Stdout; strings.Count(status, "uri-") == 0 || strings.Contains(status, "unknown") {
		t.Errorf("the archive has no bit-map:\n%s", status)
	}

	// A second deployment has nothing to do, and a plan says so.
	shown := plan.Text() + first.Text()
	for _, args := range [][]string{{"deploy", "-json", "-v"}, {"plan", "-exitCode", "-json"}} {
		again := l.Must(t, args...)
		shown += again.Text()
		for _, h := range again.Summary(t).Hosts {
			if h.Status != "ok" || h.Changed != 0 {
				t.Errorf("%s again: %+v", args[0], h)
			}
		}
	}
	if status := l.Must(t, "urifilter:status").Stdout; strings.Count(status, "active") != 2 || strings.Count(status, "yes") != 2 {
		t.Errorf("status:\n%s", status)
	}

	shown += tryLoad(t, l)

	// The output contains no secret of the hosts or of sudo.
	secrets := []string{l.Password, token}
	for _, host := range []string{"one", "two"} {
		secrets = append(secrets, l.Sh(t, host, "cat /etc/urifilter/operator.token"), l.Sh(t, host, "cat /etc/urifilter/redis.password"))
	}
	for i, secret := range secrets {
		if len(secret) < 8 || strings.Contains(shown, secret) {
			t.Errorf("secret %d of %d characters was shown, or is none", i, len(secret))
		}
	}
}

// tryLoad puts both daemons under load, and returns the output. The filters that the load has
// created must be gone afterwards.
func tryLoad(t *testing.T, l *e2e.Laptop) string {
	t.Helper()
	filters := func() []string {
		list := l.Sh(t, "one", "/opt/urifilter/current/urifilter filters list --json --token-file /etc/urifilter/operator.token")
		return regexp.MustCompile(`"name": *"[^"]*"`).FindAllString(list, -1)
	}
	before := filters()
	table := l.Must(t, "bench:load", "-duration=1s", "-batch=100", "-connections=2")
	told(t, table, 0, "ITEMS/S", "one: under load", "two: under load")
	lines := l.Must(t, "bench:load", "-duration=1s", "-batch=100", "-rate=2k", "-duplicates=0.25", "-json")
	var hosts []string
	for line := range strings.Lines(lines.Stdout) {
		var row struct {
			Host   string
			Answer struct {
				Items  int64
				Share  float64 `json:"duplicate_share"`
				Errors []any
			}
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		hosts = append(hosts, row.Host)
		if a := row.Answer; a.Items == 0 || len(a.Errors) != 0 || a.Share < 0.2 || a.Share > 0.3 {
			t.Errorf("%s: %+v", row.Host, a)
		}
	}
	if !slices.Equal(hosts, []string{"one", "two"}) {
		t.Errorf("rows of %q", hosts)
	}
	if after := filters(); !slices.Equal(after, before) || len(before) == 0 {
		t.Errorf("filters before: %s; after: %s", before, after)
	}
	return table.Text() + lines.Text()
}
