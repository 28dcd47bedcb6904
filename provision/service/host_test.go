package service_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// filter is the program of these tests.
var filter = urifilter.Program()

// rig is a host with the daemon's units, to which releases are deployed.
type rig struct {
	*hosttest.Host
	folder  release.Folder
	daemon  *service.Daemon
	counter int
}

func newRig(t *testing.T, debian string) *rig {
	t.Helper()
	h := hosttest.New(t, debian)
	hosttest.Must(t, h, environment.Steps(environment.Options{Program: filter.Program}))
	r := &rig{Host: h, folder: release.At(filter.Root(), filter.Name)}
	health := &service.Health{
		Program: filter,
		Settings: func(ctx context.Context, h host.Host) (program.Settings, error) {
			return settings.OnHost(ctx, h, filter)
		},
		Token: func(ctx context.Context, h host.Host) (string, error) {
			return environment.OperatorToken(ctx, h, filter.TokenFile())
		},
		Timeout: 30 * time.Second, // a release that does not become ready uses all of it
	}
	r.daemon = &service.Daemon{
		Health: health,
		Read:   []string{"/etc/urifilter/urifilter.yaml"},
	}
	files, err := systemd.Render(filter.Program, systemd.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := host.WriteFile(t.Context(), h, host.File{Path: systemd.Dir + "/" + f.Name, Content: string(f.Content)}); err != nil {
			t.Fatal(err)
		}
	}
	h.Sh(t, "install -m 0640 -g urifilter /dev/null /etc/urifilter/urifilter.yaml; systemctl daemon-reload && systemctl enable urifilter.service urifilter.socket")
	return r
}

// exposed has the host's systemd judge the sandbox of the services as they are loaded.
func (r *rig) exposed(t *testing.T) {
	t.Helper()
	for _, unit := range []string{filter.Service(), filter.JobService()} {
		out := r.Sh(t, "systemd-analyze security --no-pager --threshold=19 "+unit+" 2>&1 || echo '(exit code' $?')'")
		if strings.Contains(out, "(exit code") || !strings.Contains(out, "Overall exposure level for "+unit) {
			t.Errorf("%s: want an exposure below 2.0:\n%s", unit, out)
			continue
		}
		t.Log(out[strings.Index(out, "Overall exposure"):])
	}
}

// put makes a program the current release.
func (r *rig) put(t *testing.T, path string) {
	t.Helper()
	r.counter++
	at := time.Now().Add(time.Duration(r.counter) * time.Second)
	d := &release.Deployment{Folder: r.folder, At: at, By: "test", Keep: 9, Binary: func(ctx context.Context, h host.Host) (release.Binary, error) {
		facts, err := host.FactsOf(ctx, h)
		if err != nil {
			return release.Binary{}, err
		}
		return release.OpenBinary(path, facts.Arch)
	}}
	hosttest.Must(t, r, []step.Step{d.Upload(), d.Current()})
}

func TestSystemDaemonOnAHost(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a host")
	}
	t.Parallel()
	dir := t.TempDir()
	one, err := programs.Real(t.Context(), dir, "one")
	if err != nil {
		t.Fatal(err)
	}
	two, err := programs.Real(t.Context(), dir, "two")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "bookworm")
	running := []step.Step{r.daemon.Running(), r.daemon.Health.Step()}

	r.put(t, one)
	if changed := hosttest.Must(t, r, running); len(changed) != 1 || !strings.Contains(changed[0], "start: urifilter.socket is inactive") {
		t.Errorf("first start: %q", changed)
	}
	r.put(t, two)
	if changed := hosttest.Must(t, r, running); len(changed) != 1 || !strings.Contains(changed[0], "it runs 2") {
		t.Errorf("another release: %q", changed)
	}
	r.Sh(t, "echo 'log: {level: debug}' >/etc/urifilter/urifilter.yaml; chgrp urifilter /etc/urifilter/urifilter.yaml")
	if changed := hosttest.Must(t, r, running); len(changed) != 1 || !strings.Contains(changed[0], "urifilter.yaml has changed since it was started") {
		t.Errorf("other settings: %q", changed)
	}
	// A port of its own, which only root may bind, and tokens.
	token := r.Sh(t, "cat /etc/urifilter/operator.token")
	r.Sh(t, fmt.Sprintf(`cd /etc/urifilter
echo '- {name: toolkit, token: "%s", scopes: [read, filter, admin]}' >tokens.yaml
echo 'listen: 0.0.0.0:810
auth: {tokens_file: /etc/urifilter/tokens.yaml}' >urifilter.yaml
chgrp urifilter tokens.yaml; chmod 640 tokens.yaml
sed -i s/127.0.0.1:8000/810/ /etc/systemd/system/urifilter.socket; systemctl daemon-reload`, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token)))))
	if changed := hosttest.Must(t, r, running); len(changed) != 1 || !strings.Contains(changed[0], "restart with its port: /etc/systemd/system/urifilter.socket has changed") {
		t.Errorf("another port: %q", changed)
	}
	pid := r.Sh(t, "systemctl show urifilter -p MainPID --value")
	r.Sh(t, "echo '- {name: x, token: abcdefghijklmnopqrst, scopes: [read]}' >>/etc/urifilter/tokens.yaml")
	if changed := hosttest.Must(t, r, running); len(changed) != 1 || !strings.Contains(changed[0], "reload: /etc/urifilter/tokens.yaml has changed since it was read") {
		t.Errorf("another token: %q", changed)
	}
	if now := r.Sh(t, "systemctl show urifilter -p MainPID --value"); now != pid {
		t.Errorf("a reload made process %s of %s", now, pid)
	}
	r.exposed(t)
	// Within its sandbox the daemon has what makes it fast: its bit-maps are in huge pages where
	// the kernel supports them.
	if got := r.Sh(t, "grep -c '^VmFlags:.* hg\\b' /proc/"+pid+"/smaps || [ ! -e /sys/kernel/mm/transparent_hugepage ]"); got == "0" {
		t.Error("no memory of the daemon asks for huge pages")
	}
	// Without tunnels, the program's command line on the host makes the request.
	if err := r.daemon.Health.Prove(hosttest.Voiced(t), blind{r}); err != nil {
		t.Errorf("without tunnels: %v", err)
	}

	hosttest.Must(t, r, []step.Step{service.Stop(filter.Program)})
	if err := r.daemon.Health.Prove(hosttest.Voiced(t), r); err == nil || !strings.Contains(err.Error(), "hint: go tool mage urifilter:start") {
		t.Errorf("health of a stopped daemon: %v", err)
	}
	hosttest.Must(t, r, []step.Step{r.daemon.Start(), r.daemon.Health.Step()})
	if _, err := hosttest.Apply(t, r, []step.Step{r.daemon.Restart(), r.daemon.Health.Step()}); err != nil {
		t.Error(err)
	}
	r.Sh(t, "rm /etc/systemd/system/urifilter.service; systemctl daemon-reload; systemctl stop urifilter; systemctl mask urifilter")
	if _, err := hosttest.Apply(t, r, running); err == nil || !strings.Contains(err.Error(), "hint: systemctl unmask") {
		t.Errorf("masked: %v", err)
	}
}

// blind is a host that opens no tunnels.
type blind struct{ host.Host }

// TestSystemBrokenReleasesAreFoundOut covers releases that say that they are up; package e2e
// tests the others, and what happens to a fleet.
func TestSystemBrokenReleasesAreFoundOut(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a host")
	}
	t.Parallel()
	dir := t.TempDir()
	real, err := programs.Real(t.Context(), dir, "real")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "trixie")
	r.exposed(t)
	steps := []step.Step{r.daemon.Running(), r.daemon.Health.Step()}
	for mode, want := range map[string]string{
		programs.Answer500: "GET /readyz: 500 Internal Server Error: I answer 500",
		programs.Late:      "the daemon does not stay up",
		programs.Forgetful: "the filter reported the same item as new twice",
	} {
		broken, err := programs.Broken(t.Context(), dir, real, mode)
		if err != nil {
			t.Fatal(err)
		}
		r.put(t, broken)
		began := time.Now()
		_, err = hosttest.Apply(t, r, steps)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "journalctl -u urifilter says:\n  2") {
			t.Errorf("%s: after %s: %v", mode, time.Since(began).Round(time.Second), err)
			continue
		}
		t.Logf("%s: found out after %s:\n%v", mode, time.Since(began).Round(time.Second), err)
		// Whatever state the broken release left, a good release comes up after it.
		r.put(t, real)
		hosttest.Must(t, r, steps)
	}

	// A daemon that was up and has ended before the step looks again.
	r.Sh(t, "systemctl stop urifilter.service")
	running := r.daemon.Running()
	change, err := running.Look(t.Context(), r)
	if err != nil || change == nil {
		t.Fatalf("a daemon that does not run: %v, %v", change, err)
	}
	if err := change.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Sh(t, "systemctl stop urifilter.service")
	if _, err := running.Look(t.Context(), r); err == nil || !strings.Contains(err.Error(), "the daemon does not stay up") || !strings.Contains(err.Error(), "journalctl -u urifilter says:\n  2") {
		t.Errorf("ended before the second look: %v", err)
	}
	hosttest.Must(t, r, steps)
}
