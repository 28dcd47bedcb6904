//go:build unix

package e2e_test

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// reached waits until a target that was run with -json -v reports an event of that kind about
// a step of a host.
func reached(t *testing.T, r *e2e.Running, kind, host, step string) {
	t.Helper()
	event := regexp.MustCompile(`(?m)^\{"event":"` + kind + `",[^\n]*"host":"` + host + `","step":"` + step + `"`)
	for end := time.Now().Add(3 * time.Minute); !event.MatchString(r.Text()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s of %s on %s does not come:\n%s", kind, step, host, r.Text())
		}
	}
}

// tryBrokenOff: a deployment that meets another one, or that ends in the middle because of its
// operator or the failure of the laptop or of the line, leaves hosts that answer and are not
// locked, and the next one completes.
func tryBrokenOff(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "a", Sudo: true}, {Name: "b"}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
	})
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	l.Must(t, "deploy")
	l.Crawler("a", 8000, token).Filter(t, "https://example.com/before")
	l.Crawler("b", 8000, token).Filter(t, "https://example.com/before")
	// completes checks that the hosts answer, and that a second run completes.
	completes := func(t *testing.T, binary string) {
		t.Helper()
		for _, host := range []string{"a", "b"} {
			if fresh := l.Crawler(host, 8000, token).Filter(t, "https://example.com/before"); len(fresh) != 0 {
				t.Errorf("%s: forgotten", host)
			}
		}
		r := l.Must(t, "deploy", "-json", "-binary="+binary)
		asJSON(t, r)
		for _, host := range []string{"a", "b"} {
			l.Sh(t, host, "systemctl is-active urifilter")
			if left := l.Sh(t, host, "ls -d /opt/urifilter/releases/.staged-* 2>/dev/null; :"); left != "" {
				t.Errorf("%s: left behind: %s", host, left)
			}
		}
		unlocked(t, l)
	}

	t.Run("two at once", func(t *testing.T) {
		binary := padded(t, l, 16)
		first := l.Start(t, "deploy", "-json", "-v", "-binary="+binary)
		reached(t, first, "begin", "a", "release: upload")
		if err := first.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		second := l.Mage(t, "deploy", "-hosts=a")
		_ = first.Cmd.Process.Signal(syscall.SIGCONT)
		want(t, second, fleet.CodeLocked, "a: lock", "locked by ", " since 2", ": deploy, run ", "hint: wait until it has ended")
		r := first.Wait(t)
		want(t, r, 0)
		asJSON(t, r)
		completes(t, binary)
	})

	for what, c := range map[string]struct{ kind, host, step string }{
		"Ctrl-C while uploading":  {"progress", "a", "release: upload"},
		"Ctrl-C while starting":   {"begin", "a", "service: running"},
		"Ctrl-C at the last host": {"begin", "b", "release: upload"},
	} {
		t.Run(what, func(t *testing.T) {
			binary := padded(t, l, 16)
			run := l.Start(t, "deploy", "-json", "-v", "-binary="+binary)
			reached(t, run, c.kind, c.host, c.step)
			if err := run.Cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			r := run.Wait(t)
			t.Logf("ended %s after the signal", time.Since(began).Round(time.Millisecond))
			want(t, r, fleet.CodeInterrupted)
			asJSON(t, r)
			statuses(t, r, map[string]report.Status{c.host: report.Interrupted})
			if c.host == "a" {
				statuses(t, r, map[string]report.Status{"b": report.NotStarted})
			} else {
				statuses(t, r, map[string]report.Status{"a": report.Changed})
			}
			unlocked(t, l)
			completes(t, binary)
		})
	}

	t.Run("kill -9", func(t *testing.T) {
		binary := padded(t, l, 16)
		run := l.Start(t, "deploy", "-json", "-v", "-binary="+binary)
		reached(t, run, "progress", "a", "release: upload")
		if err := run.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		run.Wait(t)
		unlocked(t, l) // the host has noticed it
		completes(t, binary)
	})

	t.Run("cut while uploading", func(t *testing.T) {
		binary := padded(t, l, 16)
		run := l.Start(t, "deploy", "-json", "-v", "-binary="+binary)
		reached(t, run, "progress", "b", "release: upload")
		if err := l.Hosts["b"].Isolate(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		r := run.Wait(t)
		if err := l.Hosts["b"].Isolate(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		want(t, r, fleet.CodeUnreachable, "no answer for 30s", "hint: look whether the host is up")
		asJSON(t, r)
		statuses(t, r, map[string]report.Status{"a": report.Changed, "b": report.Unreachable})
		// The host releases the lock by itself.
		for end := time.Now().Add(2 * time.Minute); l.Sh(t, "b", "flock -n "+host.LockPath+" true || echo held") != "" && time.Now().Before(end); {
			time.Sleep(200 * time.Millisecond)
		}
		unlocked(t, l)
		completes(t, binary)
	})
}

// tryUnconfirmed: a release that was started and that nobody has confirmed is taken back by the host
// itself, whatever has become of its operator; until then status says that it is unproven.
func tryUnconfirmed(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "a"}, {Name: "b", Sudo: true}},
		Settings: "listen: '0.0.0.0:8000', uri_num_scale: 100000",
		More:     "fleet: {bake: 5s, canary: 0, batch: '2'}\n",
	})
	token := strings.TrimSpace(l.Must(t, "settings:token", "-name=crawler", "-scopes=filter").Stdout)
	l.Must(t, "deploy")
	inventory := l.Inventory(t)
	// What nobody is to confirm is watched for longer than it takes to stop the run, also on a busy machine.
	watched := strings.Replace(inventory, "bake: 5s", "bake: 90s", 1)
	if watched == inventory {
		t.Fatalf("the inventory has no bake:\n%s", inventory)
	}
	before := map[string]string{}
	for _, host := range []string{"a", "b"} {
		l.Crawler(host, 8000, token).Filter(t, "https://example.com/before")
		before[host] = l.Sh(t, host, fingerprint)
	}
	if out := l.Must(t, "urifilter:status").Stdout; strings.Contains(out, "unproven") {
		t.Errorf("a release that was confirmed is unproven:\n%s", out)
	}
	// back waits until a host is as it was, by itself.
	back := func(t *testing.T, host string) {
		t.Helper()
		for end := time.Now().Add(4 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
			now := l.Sh(t, host, fingerprint+"\nls /opt/urifilter/revert 2>/dev/null; :")
			if now == before[host] {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is\n%s\nand was\n%s\n%s", host, now, before[host], l.Sh(t, host, "journalctl -q --no-pager -n 60; systemctl list-timers --no-pager"))
			}
		}
	}
	for what, c := range map[string]struct {
		stop     func(t *testing.T, r *e2e.Running)
		code     int
		byItself bool
	}{
		"the link is lost": {func(t *testing.T, _ *e2e.Running) {
			for _, host := range []string{"a", "b"} {
				if err := l.Hosts[host].Isolate(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			}
		}, fleet.CodeUnreachable, true},
		"the laptop is gone": {func(t *testing.T, r *e2e.Running) { _ = r.Cmd.Process.Kill() }, -1, true},
		"Ctrl-C":             {func(t *testing.T, r *e2e.Running) { _ = r.Cmd.Process.Signal(os.Interrupt) }, fleet.CodeInterrupted, false},
	} {
		t.Run(what, func(t *testing.T) {
			// Other settings come with the release, and go with it.
			l.WriteInventory(t, strings.Replace(watched, "uri_num_scale: 100000", "uri_num_scale: 100000, log: {level: debug}", 1))
			run := l.Start(t, "deploy", "-json", "-v", "-binary="+l.Another(t, "unconfirmed"))
			reached(t, run, "begin", "a", "service: bake")
			reached(t, run, "begin", "b", "service: bake")
			if now := l.Sh(t, "a", fingerprint); now == before["a"] {
				t.Error("nothing new was started")
			}
			if out := l.Mage(t, "urifilter:status").Stdout; strings.Count(out, "active, unproven") != 2 || !strings.Contains(out, "unless a run does, the host goes back by itself") {
				t.Errorf("while it is watched:\n%s", out)
			}
			c.stop(t, run)
			r := run.Wait(t)
			if r.Code != c.code {
				t.Errorf("exit code %d, want %d", r.Code, c.code)
			}
			if c.code == fleet.CodeUnreachable {
				for _, host := range []string{"a", "b"} {
					back(t, host) // before anybody can reach it
					if err := l.Hosts[host].Isolate(t.Context(), false); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, host := range []string{"a", "b"} {
				back(t, host)
				if fresh := l.Crawler(host, 8000, token).Filter(t, "https://example.com/before"); len(fresh) != 0 {
					t.Errorf("%s: forgotten", host)
				}
			}
			out := l.Must(t, "urifilter:status").Stdout
			if strings.Contains(out, "unproven") || c.byItself && strings.Count(out, "it went back by itself from ") != 2 {
				t.Errorf("after it:\n%s", out)
			}
			l.WriteInventory(t, inventory)
			l.Must(t, "deploy")
			if out := l.Must(t, "urifilter:status").Stdout; strings.Contains(out, "went back") {
				t.Errorf("after another deployment:\n%s", out)
			}
			unlocked(t, l)
		})
	}
}
