package e2e_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/report"
)

// operator is a person at a laptop who keeps all output of the targets.
type operator struct {
	*e2e.Laptop
	token string // of the crawlers
	shown []string
}

func (o *operator) Mage(t *testing.T, args ...string) e2e.Result {
	t.Helper()
	r := o.Laptop.Mage(t, args...)
	o.shown = append(o.shown, strings.Join(args, " ")+"\n"+r.Text())
	return r
}

func (o *operator) Must(t *testing.T, args ...string) e2e.Result {
	t.Helper()
	r := o.Mage(t, args...)
	if r.Code != 0 {
		t.Fatalf("%s: exit code %d\n%s", strings.Join(args, " "), r.Code, r.Text())
	}
	return r
}

// tryByFabricNames: a fleet that is set up task by task, by the names that its operators know
// from fabric, on hosts that others also use, is the same as one that a deployment makes. The
// test then does everything that operators do with it. Host one shares its items through Redis;
// host two keeps its own, and is reached as a user whose sudo asks for a password.
func tryByFabricNames(t *testing.T) {
	o := &operator{Laptop: e2e.New(t, e2e.Options{
		Hosts: []e2e.Host{
			{Name: "one", Release: "bookworm", Roles: "filter, redis, mongodb"},
			{Name: "two", Release: "trixie", Sudo: true},
		},
		Repository: true, Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
	})}
	o.WriteInventory(t, strings.Replace(o.Inventory(t), "{name: two,", "{name: two, settings: {store: embedded},", 1))
	others := settle(t, o)
	seen := map[string]*watcher{"one": watch(t, o, "one"), "two": watch(t, o, "two")}
	setUp(t, o)
	others.same(t, "after the set up")

	t.Run("systemctl", func(t *testing.T) { trySystemctl(t, o) })
	t.Run("targets", func(t *testing.T) { tryTargets(t, o) })
	t.Run("crontab", func(t *testing.T) { tryCrontab(t, o) })
	// After it: a write-back at each minute would be taken for its own, or refuse it.
	cron := near(t, o, "two")
	t.Run("settings", func(t *testing.T) { trySettings(t, o, others) })
	t.Run("cron itself", cron)
	t.Run("secrets", func(t *testing.T) { trySecrets(t, o, seen) })
	t.Run("reboot", func(t *testing.T) { tryReboot(t, o) })
	others.same(t, "at the end")
}

// setUp runs each step of a deployment by its fabric name.
func setUp(t *testing.T, o *operator) {
	t.Helper()
	told(t, o.Mage(t, "urifilter_start"), fleet.CodeFailed, "the host has no release", "hint: go tool mage deploy")
	told(t, o.Mage(t, "setting_urifilter"), fleet.CodeUsage, "hint: go tool mage settings:token")
	o.token = strings.TrimSpace(o.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	told(t, o.Must(t, "setting_urifilter"), 0, "# one:/etc/urifilter/urifilter.yaml", "# two:/etc/urifilter/urifilter.yaml", "listen: '0.0.0.0:8000'")
	told(t, o.Must(t, "ssh:check"), 0, "root@", "deploy@", "Debian GNU/Linux 12", "Debian GNU/Linux 13")

	for _, task := range []string{"install_env", "install_redis", "install_mongodb", "install_settings", "urifilter_get", "install_django", "bitmap_init", "urifilter_start"} {
		if task == "urifilter_start" {
			for _, host := range []string{"one", "two"} {
				if got := o.Sh(t, host, "systemctl is-active urifilter.service || :"); got != "inactive" {
					t.Errorf("%s: a daemon that nobody has started is %s", host, got)
				}
			}
		}
		o.Must(t, task, "-v")
	}
	for host, parts := range map[string]string{
		"one": "getent passwd urifilter; systemctl is-active redis-server ferretdb urifilter",
		"two": "getent passwd urifilter; systemctl is-active urifilter",
	} {
		if got := o.Sh(t, host, parts); strings.Contains(got, "inactive") || !strings.HasPrefix(got, "urifilter:") {
			t.Errorf("%s: %s", host, got)
		}
	}

	// The only part of a deployment that is left is the schedule.
	plan := o.Mage(t, "plan", "-exitCode")
	told(t, plan, fleet.CodeChanges, "schedule: crontab")
	for line := range strings.Lines(plan.Stdout) {
		if strings.Contains(line, "| would change") && !strings.Contains(line, "| schedule: ") {
			t.Errorf("it leaves more to do: %s", line)
		}
	}
	told(t, o.Must(t, "bitmap_wrback_start"), 0, "the next writeback is at ")
}

func changed(h report.HostSummary) bool { return h.Status != report.OK || h.Changed > 0 }

var columns = regexp.MustCompile(" +")

// told checks what a person sees: the exit code, and parts of the text, in which columns are
// separated by one blank.
func told(t *testing.T, r e2e.Result, code int, parts ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d", r.Code, code)
	}
	for _, part := range parts {
		if !strings.Contains(columns.ReplaceAllString(r.Text(), " "), part) {
			t.Errorf("it does not say %q", part)
		}
	}
}
