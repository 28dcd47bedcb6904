package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// elsewhere is this machine as a host, whose folders are below another one, and whose systemctl and sync do nothing.
type elsewhere struct {
	host.Host
	dir string
}

func newElsewhere(t *testing.T) elsewhere {
	t.Helper()
	h := elsewhere{dir: t.TempDir()}
	for _, name := range []string{"units", "run"} {
		if err := os.Mkdir(filepath.Join(h.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// idle begins a script with the commands that do nothing: a sync waits for all that other tests write.
const idle = "systemctl() { :; }\nsync() { :; }\n"

var greeter = systemd.Program{Name: "greeter", Does: "greets", Documentation: "https://example.com"}

// at returns a script with the paths of the folders.
func (h elsewhere) at(script string) string {
	script = strings.ReplaceAll(script, h.dir, "") // some have been replaced already
	return strings.NewReplacer("/opt/", h.dir+"/opt/", systemd.Dir, h.dir+"/units", "/units", h.dir+"/units", "/run/", h.dir+"/run/").Replace(script)
}

func (h elsewhere) Run(ctx context.Context, c host.Command) (host.Output, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", idle+h.at(c.Script))
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = &host.CommandError{Output: host.Output{Stdout: stdout.String(), Stderr: stderr.String()}}
	}
	return host.Output{Stdout: stdout.String()}, err
}

// A run that begins before a host has gone back from what an earlier one has started changes more of it: the host
// goes back from both.
func TestWayBackOfTwoRuns(t *testing.T) {
	t.Parallel()
	h, p := newElsewhere(t), greeter
	first, second := &Revert{Program: p, After: time.Minute}, &Revert{Program: p, After: time.Minute}
	for _, run := range []struct {
		r       *Revert
		restore string
	}{{first, "echo release A >>/run/restored\n"}, {second, "echo settings of A >>/run/restored\n"}} {
		if err := run.r.Arm(t.Context(), h, run.restore); err != nil {
			t.Fatal(err)
		}
	}
	if !first.armed || second.armed {
		t.Errorf("armed: %v, %v", first.armed, second.armed)
	}
	script, err := os.ReadFile(filepath.Join(h.dir, p.RevertScript()))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", idle+h.at(string(script))).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "back to no release\n") {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(h.dir, "run", "restored")); err != nil || string(got) != "settings of A\nrelease A\n" {
		t.Errorf("restored: %q, %v", got, err)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, p.RevertDir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A run that confirms, and ends, just before a host takes the lock has decided: nothing is taken back.
func TestConfirmedBeforeTheLock(t *testing.T) {
	t.Parallel()
	h, p := newElsewhere(t), greeter
	if err := (&Revert{Program: p, After: time.Minute}).Arm(t.Context(), h, "echo back\n"); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(h.dir, p.RevertScript()))
	if err != nil {
		t.Fatal(err)
	}
	confirm := "flock() { rm " + host.Quote(filepath.Join(h.dir, p.RevertScript())) + "; }\n"
	out, err := exec.Command("sh", "-c", confirm+idle+h.at(string(script))).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// What was confirmed is on the disk when that is said: a host that loses its power then does not go back.
func TestDisarmedOnTheDisk(t *testing.T) {
	t.Parallel()
	h, r := newElsewhere(t), &Revert{Program: greeter, After: time.Minute}
	if err := r.Arm(t.Context(), h, "echo back\n"); err != nil {
		t.Fatal(err)
	}
	script := host.Quote(filepath.Join(h.dir, greeter.RevertScript()))
	out, err := exec.Command("sh", "-c", "systemctl() { :; }\nsync() { [ -e "+script+" ] || echo \"$*\"; }\n"+h.at(r.disarming())).CombinedOutput()
	if want := filepath.Join(h.dir, greeter.Root()) + " " + filepath.Join(h.dir, "units") + "\n"; err != nil || string(out) != want {
		t.Errorf("after the removal it syncs %q, want %q; %v", out, want, err)
	}
}

// So is the way back when something new is started: a host that loses its power then goes back.
func TestArmedOnTheDisk(t *testing.T) {
	t.Parallel()
	h := newElsewhere(t)
	calls := noted{h, filepath.Join(h.dir, "run", "calls")}
	if err := (&Revert{Program: greeter, After: time.Minute}).Arm(t.Context(), calls, "echo back\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(calls.file)
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), h.dir, "")), "\n")
	last := got[max(0, len(got)-5):]
	if want := []string{
		"sync /units/greeter-revert.service /units/greeter-revert.timer", "systemctl daemon-reload", "systemctl enable --quiet greeter-revert.timer",
		"sync /units /units/timers.target.wants", "systemctl restart greeter-revert.timer",
	}; err != nil || !slices.Equal(last, want) {
		t.Errorf("it called %q, %v; want %q at the end", got, err, want)
	}
}

// noted is a host that notes in a file what becomes durable, and what systemd is told.
type noted struct {
	elsewhere
	file string
}

func (h noted) Run(ctx context.Context, c host.Command) (host.Output, error) {
	if !c.Look {
		c.Script = fmt.Sprintf("systemctl() { echo \"systemctl $*\" >>%s; }\nsync() { echo \"sync $*\" >>%[1]s; }\n", host.Quote(h.file)) + c.Script
	}
	return h.elsewhere.Run(ctx, c)
}

// What is armed by a call that is broken off, as by Ctrl-C, is removed when the host is as it was: it would restart the
// daemon once more, and say that the host went back by itself. What an earlier run has armed stays.
func TestDisarmAfterArmIsBrokenOff(t *testing.T) {
	t.Parallel()
	h, p := newElsewhere(t), greeter
	script := filepath.Join(h.dir, p.RevertScript())
	brokenOff := func() {
		t.Helper()
		r := &Revert{Program: p, After: time.Minute}
		if err := r.Arm(t.Context(), lost{h}, "echo back\n"); err == nil {
			t.Fatal("no error")
		}
		if _, err := os.Stat(script); err != nil {
			t.Fatal(err)
		}
		if err := r.Disarm(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	brokenOff()
	if _, err := os.Stat(script); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the way back is left: %v", err)
	}
	if err := (&Revert{Program: p, After: time.Minute}).Arm(t.Context(), h, "echo earlier\n"); err != nil {
		t.Fatal(err)
	}
	brokenOff()
	if _, err := os.Stat(script); err != nil {
		t.Errorf("the way back of an earlier run: %v", err)
	}
}

// lost is a host that does what it is told, and whose answers to changes are lost.
type lost struct{ elsewhere }

func (h lost) Run(ctx context.Context, c host.Command) (host.Output, error) {
	out, err := h.elsewhere.Run(ctx, c)
	if err == nil && !c.Look {
		err = &host.ConnectionError{Host: "web1", Err: io.ErrUnexpectedEOF}
	}
	return out, err
}

// A daemon that somebody has stopped stays stopped when its host goes back from what nobody has confirmed, unless it has
// been started again meanwhile, or another run was about to do that. Stop makes sure of it also where nothing runs.
func TestStoppedBeforeItGoesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found string // the state of the daemon when it is to be stopped; "": it is not
		armed bool
		state string // of the daemon when the host goes back
		stays bool
	}{
		"not stopped":        {state: "active"},
		"stopped":            {found: "active", state: "inactive", stays: true},
		"stopped by hand":    {found: "inactive", state: "inactive", stays: true},
		"started again":      {found: "active", state: "active"},
		"started and fails":  {found: "active", state: "failed"},
		"started and loops":  {found: "active", state: "activating"},
		"armed once more":    {found: "active", armed: true, state: "inactive"},
		"stopped by a crash": {state: "inactive"},
	} {
		h, p := newElsewhere(t), greeter
		arm := func() {
			if err := (&Revert{Program: p, After: time.Minute}).Arm(t.Context(), h, "echo restored\n"); err != nil {
				t.Fatal(err)
			}
		}
		arm()
		release := filepath.Join(h.dir, p.Root(), "releases", "a")
		if err := errors.Join(os.MkdirAll(release, 0o700), os.Symlink("releases/a", filepath.Join(h.dir, p.Root(), "current"))); err != nil {
			t.Fatal(err)
		}
		if c.found != "" {
			change, err := Stop(p).Look(t.Context(), inState{h, c.found})
			if err != nil || change == nil {
				t.Fatal(change, err)
			}
			if err := change.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if change, err := Stop(p).Look(t.Context(), inState{h, "inactive"}); err != nil || change != nil {
				t.Errorf("%s: it is to be stopped once more: %v, %v", name, change, err)
			}
		}
		if c.armed {
			arm()
		}
		script, err := os.ReadFile(filepath.Join(h.dir, p.RevertScript()))
		if err != nil {
			t.Fatal(err)
		}
		systemctl := "systemctl() { case $1 in show) printf '%s\\n\\n' " + c.state + " inactive;; *) echo systemctl $*;; esac; }\n"
		out, err := exec.Command("sh", "-c", idle+systemctl+h.at(string(script))).CombinedOutput()
		started := strings.Contains(string(out), "systemctl restart "+p.Service())
		if err != nil || started == c.stays || !strings.Contains(string(out), "restored\n") || !strings.Contains(string(out), "back to a") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if _, err := os.Stat(filepath.Join(h.dir, p.RevertDir())); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the way back is left: %v", name, err)
		}
	}
}

// A host without room on its disk goes back later: it would restore a part, start a mixture of old and new, and forget the
// rest.
func TestNoRoomToGoBack(t *testing.T) {
	t.Parallel()
	h, p := newElsewhere(t), greeter
	if err := (&Revert{Program: p, After: time.Minute}).Arm(t.Context(), h, "echo restored\n"); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(h.dir, p.RevertScript()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		full string // a folder without room
		want string
	}{
		{p.Root(), "has no room for what ran before: trying again\n"},
		{systemd.Dir, "has no room for what ran before: trying again\n"},
		{"", "restored\nnobody has confirmed what was started: back to no release\n"},
	} {
		before := idle
		if c.full != "" {
			before += "head() { case $d in " + c.full + ") return 1;; esac; }\n"
		}
		out, err := exec.Command("sh", "-c", h.at(before+string(script))).CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), c.want) || c.full != "" && strings.Contains(string(out), "restored") {
			t.Errorf("%q is full: %v\n%s", c.full, err, out)
		}
		if _, err := os.Stat(filepath.Join(h.dir, p.RevertScript())); (err == nil) != (c.full != "") {
			t.Errorf("%q is full: the way back: %v", c.full, err)
		}
	}
	for _, dir := range []string{p.Root(), systemd.Dir} {
		if left, err := filepath.Glob(filepath.Join(h.at(dir), ".*")); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

// inState is a host with a daemon, and its port, in a state.
type inState struct {
	elsewhere
	state string
}

func (h inState) Run(ctx context.Context, c host.Command) (host.Output, error) {
	if c.Watch {
		c.Script = "systemctl() { printf 'LoadState=loaded\\nActiveState=%s\\n\\nActiveState=%s\\n' " + h.state + " " + h.state + "; }\n" + c.Script
	}
	return h.elsewhere.Run(ctx, c)
}
