package apt_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/step"
)

// fails applies steps that must fail with want in the error.
func fails(t *testing.T, h host.Host, want string, steps ...step.Step) {
	t.Helper()
	_, err := hosttest.Apply(t, h, steps)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestSystemInstall(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"bookworm", "trixie"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			h := hosttest.New(t, release)
			system := apt.New(apt.Options{Wait: time.Minute})
			steps := []step.Step{apt.Ready(), system.Install("cron: package", "cron", "logrotate"), apt.Hold("cron: version", "cron")}
			if plan := hosttest.Plan(t, h, steps); len(plan) != 2 || plan[0] != "cron: package: install cron, logrotate" {
				t.Errorf("plan: %q", plan)
			}
			h.Sh(t, "touch /root/before")
			if changed := hosttest.Must(t, h, steps); len(changed) != 2 {
				t.Errorf("changed: %q", changed)
			}
			if held := h.Sh(t, "apt-mark showhold"); held != "cron" {
				t.Errorf("held: %q", held)
			}
			if left := h.Sh(t, "find /tmp /var/tmp -newer /root/before -type f"); left != "" {
				t.Errorf("left behind: %s", left)
			}
			fails(t, h, "Unable to locate package no-such-thing\nhint: no repository of the host has it", system.Install("x", "no-such-thing"))

			// A fault in somebody else's repository stops nothing.
			h.Sh(t, "echo 'deb http://127.0.0.1:9/debian stable main' >/etc/apt/sources.list.d/dead.list; apt-get remove -qq -y logrotate")
			hosttest.Must(t, h, []step.Step{apt.New(apt.Options{}).Install("logrotate: package", "logrotate")})
		})
	}
}

func TestSystemFaults(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	install := func(packages ...string) step.Wish {
		return apt.New(apt.Options{Wait: 10 * time.Minute}).Install("packages", packages...)
	}

	// Somebody else is installing, and holds the locks until the toolkit has named the process
	// that holds them: the toolkit waits for it.
	h.Sh(t, "apt-get update -qq; systemd-run -q --unit=other apt-get -y -o DPkg::Pre-Invoke::='touch /run/held; until [ -e /run/told ]; do sleep 0.2; done' install cron")
	h.Wait(t, "[ -e /run/held ]")
	var said []string
	ctx := step.WithVoice(t.Context(), func(text string, _ bool) {
		said = append(said, text)
		if strings.Contains(text, "waiting for apt-get (process ") {
			h.Sh(t, "touch /run/told")
		}
	})
	if err := apt.Ready().Prove(ctx, h); err != nil {
		t.Errorf("ready, while others install: %v", err)
	}
	c, err := install("logrotate").Look(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(ctx); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "waiting for apt-get (process ") {
		t.Errorf("said: %s", text)
	}
	if got := h.Sh(t, "dpkg-query -W -f '${db:Status-Status} ' cron logrotate"); got != "installed installed " {
		t.Errorf("after the wait: %s", got)
	}

	// The connection breaks in the middle; dpkg does not.
	cut, cancel := context.WithCancel(hosttest.Voiced(t))
	h.Sh(t, `printf 'DPkg::Pre-Invoke { "touch /run/hooked; until [ -e /run/cut ]; do sleep 0.2; done"; };\n' >/etc/apt/apt.conf.d/99slow`)
	c, err = install("bc").Look(cut, h)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Apply(cut) }()
	h.Wait(t, "[ -e /run/hooked ]")
	cancel()
	if err := <-ended; err == nil {
		t.Error("cut off: no error")
	}
	h.Sh(t, "touch /run/cut")
	hosttest.Must(t, h, []step.Step{install("bc")})
	h.Sh(t, "rm /etc/apt/apt.conf.d/99slow")

	// An installation was broken off.
	h.Sh(t, "printf 'Package: bc\nStatus: install ok half-configured\n' >/var/lib/dpkg/updates/0001")
	fails(t, h, "hint: `dpkg --audit` on the host says which", apt.Ready())
	fails(t, h, "dpkg was interrupted", install("ed"))
	h.Sh(t, "rm /var/lib/dpkg/updates/0001")
}

func TestSystemBundleOnAHostWithoutANetwork(t *testing.T) {
	t.Parallel()
	hosts := hosttest.All(t, "bookworm", "bookworm")
	online, offline := hosts[0], hosts[1]
	offline.Sh(t, "rm -f /etc/resolv.conf; rm -rf /var/cache/apt/archives/*.deb")
	fails(t, offline, "hint: ", apt.New(apt.Options{Wait: time.Second}).Install("packages", "redis-server"))

	dir := filepath.Join(t.TempDir(), "bundle")
	if err := apt.Collect(hosttest.Voiced(t), online, dir, nil, "redis-server", "cron"); err != nil {
		t.Fatal(err)
	}
	if left := online.Sh(t, "ls -d /var/cache/urifilter-toolkit 2>/dev/null || :"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	bundle, err := apt.OpenBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bundle.Close() })
	system := apt.New(apt.Options{Bundle: bundle})
	all, err := filepath.Glob(filepath.Join(dir, "debian12-amd64", "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	// Packages in the cache of the host, from an earlier installation, make no difference.
	for _, name := range all {
		if strings.HasPrefix(filepath.Base(name), "cron_") {
			deb, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { deb.Close() })
			info, err := deb.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if err := offline.Upload(t.Context(), host.Upload{Source: deb, Size: info.Size(), Path: "/var/cache/apt/archives/" + filepath.Base(name), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := system.Install("cron: package", "cron").Look(t.Context(), offline)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := c.Apply(step.WithVoice(t.Context(), func(text string, _ bool) { said.WriteString(text + "\n") })); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "sending files of the bundle, 2 of them") || len(all) < 10 {
		t.Errorf("of a bundle with %d packages: %s", len(all), said.String())
	}
	offline.Sh(t, "apt-get remove -qq -y cron")
	// Without an index, as in a bundle that was made by hand, all packages are sent.
	if err := os.Remove(filepath.Join(dir, "debian12-amd64", apt.Index)); err != nil {
		t.Fatal(err)
	}
	if err := apt.WriteSums(dir); err != nil {
		t.Fatal(err)
	}
	if bundle, err = apt.OpenBundle(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bundle.Close() })
	system = apt.New(apt.Options{Bundle: bundle})
	hosttest.Must(t, offline, []step.Step{apt.Ready(), system.Install("redis: package", "redis-server")})
	if got := offline.Sh(t, "redis-cli ping; command -v cron || echo none; ls -d /var/cache/urifilter-toolkit 2>&1; apt-get -qq check"); !strings.HasPrefix(got, "PONG\nnone\nls: cannot access") {
		t.Errorf("after the installation: %s", got)
	}
	fails(t, offline, "Unable to locate package nginx", system.Install("packages", "nginx"))
	if err := os.WriteFile(filepath.Join(dir, "x.deb"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := apt.OpenBundle(dir); err == nil {
		t.Error("a file that is not in SHA256SUMS is taken")
	}
}
