package e2e_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// tryFailingHosts: whatever is wrong with one host, the output says so and names the next
// step, the other host is either deployed completely or not touched, no lock remains, and once
// the cause is fixed the same command completes.
func tryFailingHosts(t *testing.T) {
	l := e2e.New(t, e2e.Options{
		Hosts:    []e2e.Host{{Name: "good"}, {Name: "bad", Sudo: true, Disks: map[string]int64{"/opt": 400 << 20}}},
		Settings: "uri_num_scale: 100000",
	})
	inventory, environ := l.Inventory(t), l.Environ
	bad := l.Hosts["bad"]
	l.Must(t, "deploy")
	refusals := func(t *testing.T) string {
		t.Helper()
		return l.Sh(t, "bad", "journalctl --sync; journalctl -q -o cat _COMM=sudo | grep -c 'incorrect password' || :")
	}

	for _, c := range []struct {
		what        string
		spoil, mend func(t *testing.T)
		code        int
		good, bad   report.Status
		says        []string
		// completes checks that the same command then completes. It is left out where the case
		// before has shown it: the fault was in a file or a variable of the laptop, and the next
		// case that completes shows that nothing of it remains.
		completes bool
	}{
		{
			what: "another host key",
			spoil: func(t *testing.T) {
				// For all that the laptop can tell, another machine answers at its address.
				known := string(read(t, l.Sandbox.KnownHosts))
				for _, key := range bad.HostKeys {
					kind, _, _ := strings.Cut(key, " ")
					for _, other := range l.Hosts["good"].HostKeys {
						if strings.HasPrefix(other, kind+" ") {
							known = strings.ReplaceAll(known, key, other)
						}
					}
				}
				path := filepath.Join(l.Home, "known_hosts")
				write(t, path, known)
				l.WriteInventory(t, strings.Replace(inventory, l.Sandbox.KnownHosts, path, 1))
			},
			code: fleet.CodeUnreachable, good: report.OK, bad: report.Unreachable, completes: true,
			says: []string{"deploy@" + bad.Address, "SHA256:", "known_hosts", "hint: "},
		},
		{
			what: "no host key is known",
			spoil: func(t *testing.T) {
				path := filepath.Join(l.Home, "known_hosts")
				var known []string
				for line := range strings.Lines(string(read(t, l.Sandbox.KnownHosts))) {
					if !strings.Contains(line, bad.Address) {
						known = append(known, line)
					}
				}
				write(t, path, strings.Join(known, ""))
				l.WriteInventory(t, strings.Replace(inventory, l.Sandbox.KnownHosts, path, 1))
			},
			code: fleet.CodeUnreachable, good: report.OK, bad: report.Unreachable,
			says: []string{"deploy@" + bad.Address, "go tool mage ssh:setup"},
		},
		{
			what: "wrong port",
			spoil: func(t *testing.T) {
				l.WriteInventory(t, strings.Replace(inventory, "{name: bad,", "{name: bad, port: 9,", 1))
			},
			code: fleet.CodeUnreachable, good: report.OK, bad: report.Unreachable,
			says: []string{"nothing listens at " + bad.Address + ":9", "hint: look at the port in the inventory"},
		},
		{
			what: "cable pulled",
			spoil: func(t *testing.T) {
				if err := bad.Isolate(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			},
			mend: func(t *testing.T) {
				if err := bad.Isolate(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			},
			code: fleet.CodeUnreachable, good: report.OK, bad: report.Unreachable, completes: true,
			says: []string{"no answer from " + bad.Address, "hint: is the host up?"},
		},
		{
			what:  "wrong sudo password",
			spoil: func(*testing.T) { l.Environ = []string{"E2E_SUDO_PASSWORD=something else"} },
			code:  fleet.CodeFailed, good: report.NotStarted, bad: report.Failed, completes: true,
			says: []string{"bad: preflight: root and systemd", "password", "E2E_SUDO_PASSWORD", "hint: "},
		},
		{
			what:  "no sudo password, and nobody to ask",
			spoil: func(*testing.T) { l.Environ = nil },
			code:  fleet.CodeFailed, good: report.NotStarted, bad: report.Failed,
			says: []string{"bad: preflight: root and systemd", "E2E_SUDO_PASSWORD", "hint: "},
		},
		{
			what: "a user without sudo",
			spoil: func(t *testing.T) {
				l.Sh(t, "bad", "useradd -m -s /bin/bash nobody2 && cp -r /root/.ssh /home/nobody2/ && chown -R nobody2: /home/nobody2/.ssh; echo 'nobody2:"+l.Password+"' | chpasswd")
				l.WriteInventory(t, strings.Replace(inventory, "user: deploy", "user: nobody2", 1))
			},
			code: fleet.CodeFailed, good: report.NotStarted, bad: report.Failed,
			says: []string{"bad: preflight: root and systemd", "sudo", "hint: "},
		},
		{
			what:  "full disk",
			spoil: func(t *testing.T) { l.Sh(t, "bad", fill+" 50") },
			mend:  func(t *testing.T) { l.Sh(t, "bad", "rm /opt/filler") },
			code:  fleet.CodeFailed, good: report.NotStarted, bad: report.Failed, completes: true,
			says: []string{"MB are free on /opt: want 100 MB for a release", "hint: free space there"},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			before := map[string]string{"good": l.Sh(t, "good", fingerprint), "bad": l.Sh(t, "bad", fingerprint)}
			tried := refusals(t)
			c.spoil(t)
			r := l.Mage(t, "deploy", "-json") // people read standard error
			want(t, e2e.Result{Code: r.Code, Stderr: r.Stderr}, c.code, c.says...)
			if c.what == "wrong sudo password" {
				if got := refusals(t); tried != "0" || got != "1" {
					t.Errorf("the host has refused %s passwords before, %s after", tried, got)
				}
			}
			asJSON(t, r)
			statuses(t, r, map[string]report.Status{"good": c.good, "bad": c.bad})

			if c.mend != nil {
				c.mend(t)
			}
			l.Environ = environ
			l.WriteInventory(t, inventory)
			unlocked(t, l)
			for host, was := range before {
				if now := l.Sh(t, host, fingerprint); now != was {
					t.Errorf("%s has changed from\n%s\nto\n%s", host, was, now)
				}
			}
			if c.completes {
				statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"good": report.OK, "bad": report.OK})
			}
		})
	}

	t.Run("the disk gets full in the middle", func(t *testing.T) {
		before := l.Sh(t, "bad", fingerprint)
		l.Sh(t, "bad", fill+" 110")
		binary := padded(t, l, 90)
		r := l.Mage(t, "deploy", "-binary="+binary)
		want(t, r, fleet.CodeFailed, "bad: release: upload", "hint: ")
		if now := l.Sh(t, "bad", fingerprint); now != before {
			t.Errorf("the host has changed from\n%s\nto\n%s", before, now)
		}
		if left := l.Sh(t, "bad", "ls -d /opt/urifilter/releases/.staged-* 2>/dev/null; :"); left != "" {
			t.Errorf("left behind: %s", left)
		}
		unlocked(t, l)
		l.Sh(t, "bad", "rm /opt/filler")
		statuses(t, l.Must(t, "deploy", "-json", "-resume", "-binary="+binary), map[string]report.Status{"bad": report.Changed})
		statuses(t, l.Must(t, "deploy", "-json", "-binary="+binary), map[string]report.Status{"good": report.OK, "bad": report.OK})
	})
}

// fill leaves the given number of MB free in /opt.
const fill = `free() { echo $(($(df -Pm /opt | awk 'NR==2{print $4}') - $1)); }; fill() { fallocate -l "$(free "$1")M" /opt/filler; }; fill`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// padded returns the daemon with size MB appended, another release each time, so that its
// upload takes a while.
func padded(t *testing.T, l *e2e.Laptop, size int) string {
	t.Helper()
	tail := make([]byte, size<<20)
	_, _ = rand.Read(tail) // never fails
	path := filepath.Join(t.TempDir(), "urifilter")
	if err := os.WriteFile(path, append(read(t, l.Program(t)), tail...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// unlocked checks that no run holds a host. It waits for a run that was killed, or that releases
// its lock by a hang-up, but not so long that the lock of a silent run would expire by itself.
func unlocked(t *testing.T, l *e2e.Laptop) {
	t.Helper()
	for name := range l.Hosts {
		if got := l.Sh(t, name, fmt.Sprintf("[ ! -e %[1]s ] || flock -w 20 %[1]s true || cat %[1]s", host.LockPath)); got != "" {
			t.Errorf("%s is locked:\n%s", name, got)
		}
	}
}

// asJSON checks that all of a target's standard output consists of events.
func asJSON(t *testing.T, r e2e.Result) {
	t.Helper()
	for line := range strings.Lines(r.Stdout) {
		var e report.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind == "" {
			t.Errorf("no event: %q: %v", line, err)
		}
	}
}

// statuses checks what became of hosts.
func statuses(t *testing.T, r e2e.Result, want map[string]report.Status) {
	t.Helper()
	for _, h := range r.Summary(t).Hosts {
		if w, ok := want[h.Host]; ok && h.Status != w {
			t.Errorf("%s is %q, want %q: %s", h.Host, h.Status, w, h.Error)
		}
	}
}

// tryAptHeld: while somebody else installs packages on a host, a deployment that needs to
// install some waits, says which process it waits for, and completes.
func tryAptHeld(t *testing.T) {
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "one", Roles: "filter, redis"}}, Settings: "uri_num_scale: 100000"})
	// This apt-get holds the locks, and waits for a file before it installs.
	l.Sh(t, "one", "apt-get update -qq; systemd-run -q --unit=other apt-get -y -o DPkg::Pre-Invoke::='touch /run/held; until [ -e /run/go ]; do sleep 0.2; done' --no-install-recommends install bc")
	l.Sh(t, "one", "for i in $(seq 2400); do [ ! -e /run/held ] || exit 0; sleep 0.1; done; systemctl status other; exit 1")
	run := l.Start(t, "deploy", "-json")
	run.WaitFor(t, "apt: waiting for apt-get (process ")
	l.Sh(t, "one", "touch /run/go")
	r := run.Wait(t)
	want(t, r, 0, "which holds the lock")
	asJSON(t, r)
	statuses(t, r, map[string]report.Status{"one": report.Changed})
	if got := l.Sh(t, "one", "dpkg-query -W -f '${db:Status-Status} ' bc redis-server; systemctl is-active redis-server urifilter"); got != "installed installed active\nactive" {
		t.Errorf("after it: %s", got)
	}
	statuses(t, l.Must(t, "deploy", "-json"), map[string]report.Status{"one": report.OK})
	unlocked(t, l)
}
