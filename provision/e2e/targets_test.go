package e2e_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryTargets: the targets that inspect a fleet, and those that start, stop, write back and
// restore, by their fabric names where they have one.
func tryTargets(t *testing.T, o *operator) {
	one, two := o.Crawler("one", 8000, o.token), o.Crawler("two", 8000, o.token)
	is := func(host, state string) {
		t.Helper()
		if got := o.Sh(t, host, "systemctl is-active urifilter.service || :"); got != state {
			t.Errorf("%s is %s, want %s", host, got, state)
		}
	}
	process := func(host string) string {
		return o.Sh(t, host, "systemctl show -p MainPID --value urifilter")
	}

	told(t, o.Must(t, "urifilter_stop", "-hosts=two", "-dryRun"), 0, "two | service: stop | would change")
	is("two", "active")
	o.Must(t, "urifilter_stop", "-hosts=two")
	is("one", "active")
	is("two", "inactive")
	status := o.Mage(t, "urifilter:status")
	told(t, status, fleet.CodeFailed, "go tool mage urifilter:start -hosts=two")
	o.Must(t, "urifilter_start")
	is("two", "active")
	pids := process("one") + " " + process("two")
	o.Must(t, "urifilter_start", "-hosts=one")
	if now := process("one") + " " + process("two"); now != pids {
		t.Error("urifilter_start restarted daemons that ran")
	}
	o.Must(t, "urifilter_restart")
	if process("one") == strings.Fields(pids)[0] || process("two") == strings.Fields(pids)[1] {
		t.Error("urifilter_restart restarted nothing")
	}
	told(t, o.Must(t, "urifilter:logs", "-lines=5", "-hosts=one"), 0, "one | ")
	told(t, o.Mage(t, "urifilter:logs", "-since=soonish", "-hosts=one"), fleet.CodeFailed, "one: since \"soonish\": journalctl knows no such time", "hint: a time such as")
	follow := o.Start(t, "urifilter:logs", "-lines=1", "-follow")
	for _, host := range []string{"one", "two"} {
		follow.WaitFor(t, host+" | ")
	}
	if err := follow.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if r := follow.Wait(t); r.Code != 0 || strings.Contains(r.Text(), "Error") {
		t.Errorf("Ctrl-C: exit code %d\n%s", r.Code, r.Text())
	}
	told(t, o.Must(t, "urifilter:releases"), 0, "RELEASE")

	// Each line of JSON can be read by a program.
	for _, target := range []string{"urifilter:status", "urifilter:releases", "urifilter:logs", "bitmap:status"} {
		for line := range strings.Lines(o.Must(t, target, "-json").Stdout) {
			var answer struct {
				Host   string
				Answer json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Host == "" || len(answer.Answer) < 2 {
				t.Errorf("%s -json: %v: %s", target, err, line)
			}
		}
	}

	// To the archive, and back.
	kept := []string{"https://example.com/kept/1", "https://example.com/kept/2"}
	one.Filter(t, kept...)
	two.Filter(t, kept...)
	update := o.Must(t, "bitmap_update", "-filters=uri")
	told(t, update, 0, "one | bitmap: update", "two | bitmap: update")
	told(t, o.Must(t, "bitmap:status"), 0, "uri-")
	o.Must(t, "urifilter_stop", "-hosts=two")
	o.Sh(t, "two", "rm -rf /var/lib/urifilter/*") // as if its disk were new
	o.Must(t, "bitmap:restore", "-hosts=two", "-filters=uri")
	o.Must(t, "urifilter_start", "-hosts=two")
	if fresh := two.Filter(t, kept...); len(fresh) > 0 {
		t.Errorf("restored by the toolkit, it takes for new %q", fresh)
	}
	o.Must(t, "bitmap:restore") // all hosts and filters, while the daemons run
	if fresh := one.Filter(t, append(slices.Clone(kept), "https://example.com/later")...); len(fresh) != 1 {
		t.Errorf("after a restore into a filter that is used: new are %q", fresh)
	}
	version := regexp.MustCompile(`uri-\d+`).FindString(update.Text())
	told(t, o.Must(t, "bitmap:restore", "-hosts=two", "-filters=uri", "-version="+version), 0, version)
	told(t, o.Mage(t, "bitmap:restore", "-hosts=two", "-filters=uri", "-version=uri-9999999"), fleet.CodeFailed, "uri-9999999", "hint: ")
	told(t, o.Mage(t, "bitmap:restore", "-version=uri-1"), fleet.CodeUsage, "-filters=NAME")
	told(t, o.Mage(t, "bitmap_update", "-filters=nosuch"), fleet.CodeFailed, "nosuch")

	// The schedule, removed and restored.
	told(t, o.Must(t, "bitmap_wrback_stop", "-hosts=two"), 0, "remove /etc/cron.d/urifilter", "schedule.kind")
	if got := o.Sh(t, "two", "ls /etc/cron.d"); strings.Contains(got, "urifilter") || !strings.Contains(got, "other") {
		t.Errorf("crontabs of two: %s", got)
	}
	o.Must(t, "bitmap:writebackStart")
	if got := o.Sh(t, "two", "ls /etc/cron.d"); !strings.Contains(got, "urifilter") {
		t.Errorf("crontabs of two: %s", got)
	}
}

// trySettings: a setting that is changed on the laptop reaches the hosts by each of the ways
// there are.
func trySettings(t *testing.T, o *operator, s *others) {
	has := func(host, line string) bool {
		return strings.Contains(o.Sh(t, host, "cat /etc/urifilter/urifilter.yaml"), line)
	}
	inventory := string(mustRead(t, o.Dir+"/configs/hosts.yaml"))
	with := func(keys string) string {
		return strings.Replace(inventory, "uri_num_scale: 100000", "uri_num_scale: 100000, "+keys, 1)
	}
	process := o.Sh(t, "one", "systemctl show -p MainPID --value urifilter")

	o.WriteInventory(t, with("writeback: {keep: 0}"))
	for _, task := range []string{"setting_urifilter", "update"} {
		told(t, o.Mage(t, task), fleet.CodeUsage, "hosts.yaml", "writeback.keep")
	}
	o.WriteInventory(t, with("writeback: {keep: 4}"))
	told(t, o.Must(t, "setting_urifilter"), 0, "keep: 4")
	told(t, o.Must(t, "update_urifilter_setting_remote", "-dryRun", "-v"), 0, "keep: 4")
	if has("one", "keep: 4") {
		t.Error("a dry run has changed the settings")
	}
	o.Must(t, "install_settings", "-hosts=one")
	if !has("one", "keep: 4") || has("two", "keep: 4") || o.Sh(t, "one", "systemctl show -p MainPID --value urifilter") != process {
		t.Error("install_settings -hosts=one: want the file on one, and no restart")
	}
	o.Must(t, "update_urifilter_setting_remote")
	if !has("two", "keep: 4") || o.Sh(t, "one", "systemctl show -p MainPID --value urifilter") == process {
		t.Error("update_urifilter_setting_remote: want the file on two, and that one's daemon has taken it")
	}
	o.WriteInventory(t, inventory)
	told(t, o.Must(t, "update", "-v"), 0, "keep: 4")
	if has("one", "keep") || has("two", "keep") {
		t.Error("a setting that is gone from the inventory is still on the hosts")
	}

	// A new token is valid without a restart; the old ones stay valid.
	process = o.Sh(t, "one", "systemctl show -p MainPID --value urifilter")
	token := strings.TrimSpace(o.Mage(t, "settings:token", "-name=reader", "-scopes=filter").Stdout)
	o.shown = o.shown[:len(o.shown)-1] // the token is shown there, and only there
	o.Must(t, "settings:push", "-hosts=one")
	for _, token := range []string{token, o.token} {
		o.Crawler("one", 8000, token).Filter(t, "https://example.com/token")
	}
	if o.Sh(t, "one", "systemctl show -p MainPID --value urifilter") != process {
		t.Error("a new token has restarted the daemon")
	}

	// The settings of Redis: our lines change, those of others do not.
	o.WriteInventory(t, inventory+"redis: {maxmemory: 300mb}\n")
	o.Must(t, "install_redis", "-v")
	if got := o.Sh(t, "one", "REDISCLI_AUTH=$(cat /etc/urifilter/redis.password) redis-cli config get maxmemory"); got != "maxmemory\n314572800" {
		t.Errorf("Redis has %s", got)
	}
	s.same(t, "with other settings")
	o.WriteInventory(t, inventory)
	o.Must(t, "install_redis")
}
