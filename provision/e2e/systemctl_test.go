package e2e_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// trySystemctl: an administrator who knows nothing of the toolkit finds a service that behaves
// like any other good one.
func trySystemctl(t *testing.T, o *operator) {
	for _, host := range []string{"one", "two"} {
		crawler := o.Crawler(host, 8000, o.token)
		crawler.Filter(t, "https://example.com/systemctl")
		status := o.Sh(t, host, "systemctl status urifilter --no-pager")
		for _, part := range []string{"urifilter.service - urifilter: remembers which items have been seen", "Loaded: loaded (/etc/systemd/system/urifilter.service; enabled", "Active: active (running)", "TriggeredBy: ", "urifilter.socket", "Docs: https://github.com/cr-clawer/urifilter", "Status: \""} {
			if !strings.Contains(status, part) {
				t.Errorf("%s: systemctl status does not say %q:\n%s", host, part, status)
			}
		}
		before := o.Sh(t, host, "systemctl show -p MainPID --value urifilter")
		o.Sh(t, host, "systemctl restart urifilter")
		if now := o.Sh(t, host, "systemctl is-active urifilter; systemctl show -p MainPID --value urifilter"); !strings.HasPrefix(now, "active\n") || strings.HasSuffix(now, "\n"+before) {
			t.Errorf("%s: after a restart: %s; process %s before", host, now, before)
		}
		if fresh := crawler.Filter(t, "https://example.com/systemctl"); len(fresh) > 0 {
			t.Errorf("%s: a restart forgot %q", host, fresh)
		}
		// systemctl waits for the service; the socket stops after it.
		o.Sh(t, host, "systemctl stop urifilter; while systemctl is-active -q urifilter.socket; do sleep 0.1; done")
		if now := o.Sh(t, host, "systemctl is-active urifilter; systemctl is-failed urifilter; ss -Hltn sport = :8000; curl --version >/dev/null 2>&1; :"); now != "inactive\ninactive" {
			t.Errorf("%s: after a stop: %s", host, now)
		}
		if _, err := crawler.Ask("https://example.com/systemctl"); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: a stopped service answers %v", host, err)
		}
		if status := o.Sh(t, host, "systemctl status urifilter --no-pager || [ $? = 3 ]"); !strings.Contains(status, "Active: inactive (dead)") {
			t.Errorf("%s: stopped:\n%s", host, status)
		}
		// To start the service alone starts everything, and returns when the daemon answers.
		o.Sh(t, host, "systemctl start urifilter")
		if fresh := crawler.Filter(t, "https://example.com/systemctl"); len(fresh) > 0 {
			t.Errorf("%s: a stop forgot %q", host, fresh)
		}
		log := o.Sh(t, host, "journalctl --sync; journalctl -u urifilter --no-pager")
		for _, part := range []string{"Starting ", "Started ", "Stopping ", "Stopped "} {
			if !strings.Contains(log, "systemd[1]: "+part+"urifilter.service - urifilter: remembers") {
				t.Errorf("%s: the journal has no %q:\n%s", host, part, log)
			}
		}
		t.Logf("%s: journalctl -u urifilter\n%s", host, log)
		if regexp.MustCompile(`urifilter\[\d+\]: .*\d{4}-\d\d-\d\dT\d\d:\d\d`).MatchString(log) {
			t.Errorf("%s: lines of the journal have a second time stamp", host)
		}
		if r := o.Must(t, "urifilter:status", "-hosts="+host); !strings.Contains(r.Stdout, "active") {
			t.Error("the toolkit sees no daemon that was started by hand")
		}
	}
}

// tryReboot: after a reboot, hosts work again by themselves and know what they knew.
func tryReboot(t *testing.T, o *operator) {
	items := map[string][]string{}
	for _, host := range []string{"one", "two"} {
		for i := range 500 {
			items[host] = append(items[host], "https://example.com/"+host+"/"+strings.Repeat("x", i))
		}
		if fresh := o.Crawler(host, 8000, o.token).Filter(t, items[host]...); len(fresh) != 500 {
			t.Errorf("%s: %d of 500 items are new", host, len(fresh))
		}
	}
	done := make(chan error)
	for _, host := range []string{"one", "two"} {
		go func() { done <- o.Hosts[host].Reboot(t.Context()) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"one", "two"} {
		var fresh []string
		var err error
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
			if fresh, err = o.Crawler(host, 8000, o.token).Ask(items[host]...); err == nil {
				break
			}
		}
		if err != nil || len(fresh) > 0 {
			t.Errorf("%s: after a reboot %d items are new, %v\n%s", host, len(fresh), err, o.Sh(t, host, "systemctl status urifilter --no-pager; journalctl -b -u urifilter --no-pager; :"))
		}
		if failed := o.Sh(t, host, "systemctl --failed --plain --no-legend"); failed != "" {
			t.Errorf("%s: after a reboot:\n%s", host, failed)
		}
	}
	o.Must(t, "urifilter:status")
	// The warnings of the daemon have the priority of a warning.
	if log := o.Sh(t, "two", "journalctl --sync; journalctl -u urifilter -p warning --no-pager -o cat"); !strings.Contains(log, "restored from the archive") || strings.Contains(log, "Started") {
		t.Errorf("warnings in the journal:\n%s", log)
	}
	if again := o.Must(t, "plan", "-json").Summary(t); slices.ContainsFunc(again.Hosts, changed) {
		t.Errorf("a plan after a reboot: %+v", again.Hosts)
	}
}
