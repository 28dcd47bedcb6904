package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/systemd"
)

// The tests on sandbox hosts use the real systemd; here a strict stand-in records its
// commands, and fails on unknown ones.
type fakeSystemd struct {
	*unitHost
	enabled map[string]bool
	active  map[string]bool
	said    []string
}

// filter is the program of these tests.
var filter = systemd.Urifilter()

func newFakeSystemd(t *testing.T) *fakeSystemd {
	t.Helper()
	f := &fakeSystemd{unitHost: &unitHost{program: filter, dir: t.TempDir()}, enabled: map[string]bool{}, active: map[string]bool{}}
	f.run = func(_ context.Context, name string, args ...string) (string, error) {
		line := name + " " + strings.Join(args, " ")
		if name != "systemctl" {
			return "", fmt.Errorf("unexpected: %s", line)
		}
		if !strings.HasPrefix(args[0], "is-") {
			f.said = append(f.said, line)
		}
		switch args[0] {
		case "is-enabled":
			if f.enabled[args[1]] {
				return "enabled\n", nil
			}
			return "disabled\n", errors.New("exit status 1")
		case "is-active":
			if f.active[args[1]] {
				return "active\n", nil
			}
			return "inactive\n", errors.New("exit status 3")
		case "start":
			for _, unit := range args[1:] {
				f.active[unit] = true
			}
		case "enable":
			for _, unit := range args[1:] {
				if _, err := os.Stat(filepath.Join(f.dir, unit)); err != nil {
					return "", err
				}
				f.enabled[unit] = true
			}
		case "disable":
			for _, unit := range args[1:] {
				delete(f.enabled, unit)
			}
		case "daemon-reload", "stop", "reset-failed":
		default:
			return "", fmt.Errorf("unexpected: %s", line)
		}
		return "", nil
	}
	return f
}

func (f *fakeSystemd) install(t *testing.T, p systemd.Params, o installOptions) *installation {
	t.Helper()
	files, err := systemd.Render(filter, p)
	if err != nil {
		t.Fatal(err)
	}
	in, err := f.compare(t.Context(), files, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.apply(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return in
}

func (f *fakeSystemd) units(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func changes(in *installation) string {
	var all []string
	for _, u := range in.Units {
		all = append(all, u.name+" "+u.Change)
	}
	return strings.Join(all, ", ")
}

// A reinstall need not repeat which command the service runs.
func TestWhatTheServiceRunsStays(t *testing.T) {
	t.Parallel()
	f := newFakeSystemd(t)
	if got := f.runs(); got != "" {
		t.Errorf("before: %q", got)
	}
	f.program.Daemons = []string{"serve", "master --dispatch", "worker"}
	for _, run := range f.program.Daemons {
		files, err := systemd.Render(f.program, systemd.Params{Run: run})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(f.dir, file.Name), file.Content, file.Mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.runs(); got != run {
			t.Errorf("%s: got %q", run, got)
		}
	}
	f.program.Daemons = []string{"serve"}
	if got := f.runs(); got != "" {
		t.Errorf("a command that the program does not know: %q", got)
	}
}

func TestInstallLooksBeforeItChanges(t *testing.T) {
	t.Parallel()
	f := newFakeSystemd(t)
	in := f.install(t, systemd.Params{}, installOptions{})
	if got, want := changes(in), "urifilter-retry.timer created, urifilter.service created, urifilter.socket created"; got != want || !in.Changed {
		t.Errorf("first: %s, want %s", got, want)
	}
	if !slices.Equal(in.Enabled, []string{filter.Service(), filter.Socket()}) {
		t.Errorf("enabled %v", in.Enabled)
	}

	f.said = nil
	in = f.install(t, systemd.Params{}, installOptions{})
	if in.Changed || len(f.said) > 0 || strings.Contains(changes(in), "created") {
		t.Errorf("second: changed %v, %s, systemd was told %v", in.Changed, changes(in), f.said)
	}

	dropIn := filepath.Join(f.dir, filter.Service()+".d", "local.conf")
	if err := os.MkdirAll(filepath.Dir(dropIn), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dropIn, []byte("[Service]\nNice=5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	in = f.install(t, systemd.Params{Listen: []string{":9000"}}, installOptions{})
	if got, want := changes(in), "urifilter-retry.timer unchanged, urifilter.service unchanged, urifilter.socket updated"; got != want {
		t.Errorf("another port: %s, want %s", got, want)
	}
	if diff := in.Units[2].Diff; !strings.Contains(diff, "-ListenStream=127.0.0.1:8000\n+ListenStream=9000\n") || strings.Contains(diff, "Backlog") {
		t.Errorf("diff:\n%s", diff)
	}
	if !slices.Equal(f.said, []string{"systemctl daemon-reload"}) {
		t.Errorf("systemd was told %v", f.said)
	}

	f.said = nil
	if done, err := f.remove(t.Context()); err != nil || len(done.Removed) != 3 {
		t.Errorf("remove: %+v, %v", done, err)
	}
	if got := f.units(t); !slices.Equal(got, []string{filter.Service() + ".d"}) {
		t.Errorf("left: %v, want the drop-ins", got)
	}
	if want := "systemctl stop urifilter.socket urifilter.service urifilter-retry.timer"; f.said[0] != want {
		t.Errorf("first systemd was told %s, want %s", f.said[0], want)
	}
	if len(f.enabled) > 0 {
		t.Errorf("still enabled: %v", f.enabled)
	}
	if done, err := f.remove(t.Context()); err != nil || done.Changed {
		t.Errorf("remove again: %+v, %v", done, err)
	}
}

func TestInstallTimer(t *testing.T) {
	t.Parallel()
	f := newFakeSystemd(t)
	with := installOptions{timer: true, timerGiven: true}
	in := f.install(t, systemd.Params{}, with)
	if !slices.Contains(in.Enabled, filter.JobTimer()) || !slices.Contains(f.said, "systemctl start "+filter.JobTimer()) {
		t.Errorf("enabled %v, systemd was told %v", in.Enabled, f.said)
	}
	f.active[filter.JobTimer()] = false // as after an install that was broken off
	f.said = nil
	if in = f.install(t, systemd.Params{}, with); !f.active[filter.JobTimer()] || !in.Changed {
		t.Errorf("enabled, and not running: %+v, systemd was told %v", in, f.said)
	}
	if in = f.install(t, systemd.Params{}, with); in.Changed {
		t.Errorf("once more: %+v", in)
	}
	// Without --timer, it stays, and is kept up to date.
	in = f.install(t, systemd.Params{User: "crawl"}, installOptions{})
	if got := changes(in); !strings.Contains(got, filter.JobService()+" updated") || !strings.Contains(got, filter.JobTimer()+" unchanged") {
		t.Errorf("another user: %s", got)
	}
	delete(f.enabled, filter.JobTimer()) // an operator has disabled it
	if in = f.install(t, systemd.Params{User: "crawl"}, installOptions{}); in.Changed {
		t.Errorf("a timer that was disabled: %s, enabled %v", changes(in), in.Enabled)
	}
	in = f.install(t, systemd.Params{User: "crawl"}, installOptions{timerGiven: true})
	if got := changes(in); strings.Count(got, "removed") != 2 || f.enabled[filter.JobTimer()] {
		t.Errorf("without the timer: %s", got)
	}
	if in = f.install(t, systemd.Params{User: "crawl"}, installOptions{timerGiven: true}); in.Changed {
		t.Errorf("without the timer, again: %s", changes(in))
	}
}

func TestMaskedUnitIsNotReplaced(t *testing.T) {
	t.Parallel()
	f := newFakeSystemd(t)
	if err := os.Symlink(os.DevNull, filepath.Join(f.dir, filter.Service())); err != nil {
		t.Skip(err) // Windows without the right to make links
	}
	files, err := systemd.Render(filter, systemd.Params{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.compare(t.Context(), files, installOptions{}); err == nil || !strings.Contains(err.Error(), "hint: systemctl unmask") {
		t.Errorf("got %v", err)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	h := &unitHost{program: filter, run: func(context.Context, string, ...string) (string, error) {
		return "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nResult=success\nMainPID=295\nNRestarts=2\n" +
			"MemoryCurrent=[not set]\nStatusText=Serving http://[::1]:8000: 5 filters\nListen=[::]:8000 (Stream)\nListen=127.0.0.1:1 (Stream)\n" +
			"ActiveEnterTimestamp=Fri 2025-11-21 10:11:01.141234 UTC\n", nil
	}}
	s, err := h.show(t.Context(), filter.Service())
	if err != nil {
		t.Fatal(err)
	}
	if s.PID != 295 || s.Restarts != 2 || s.Memory != 0 || s.Listen != "[::]:8000, 127.0.0.1:1" || s.Since != "2025-11-21T10:11:01Z" || !s.running() {
		t.Errorf("got %+v", s)
	}
}

func TestHunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, want string }{
		{"", "", ""},
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n", "@@ -1,7 +1,7 @@\n 1\n 2\n 3\n-4\n+x\n 5\n 6\n 7\n"},
	} {
		if got := hunks(c.from, c.to); got != c.want {
			t.Errorf("from %q to %q:\n%swant\n%s", c.from, c.to, got, c.want)
		}
	}
}
