package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
)

// told is a host on which systemd says one thing after the other, and repeats the last.
type told struct {
	host.Host
	says []string
}

func (t *told) Run(context.Context, host.Command) (host.Output, error) {
	text := "LoadState=loaded\nSocketActiveState=active\n" + strings.ReplaceAll(t.says[0], " ", "\n")
	if len(t.says) > 1 {
		t.says = t.says[1:]
	}
	return host.Output{Stdout: text}, nil
}

const (
	crashing = "ExecMainStartTimestamp=1000 ActiveState=activating SubState=auto-restart NRestarts=0 MainPID=0"
	counted  = "ExecMainStartTimestamp=2000 ActiveState=activating SubState=start NRestarts=1 MainPID=22"
	again    = "ExecMainStartTimestamp=3000 ActiveState=activating SubState=start NRestarts=2 MainPID=33"
	ended    = "ExecMainStartTimestamp=2000 ActiveState=active SubState=running NRestarts=1 MainPID=22" // which systemd does not know yet
	up       = ended + " Program=/opt/urifilter/current/urifilter"
)

// A daemon that was found healthy is watched until it has run for long enough.
func TestBakedDaemons(t *testing.T) {
	t.Parallel()
	at := func(now string) string { return "Now=" + now + " " + up }
	for name, c := range map[string]struct {
		says []string
		pid  int
		want string
		left int
	}{
		"it has run for long":         {[]string{at("30002000"), "none"}, 22, "", 1},
		"it is another process":       {[]string{at("1002000")}, 21, "process 21 was healthy and has ended", 1},
		"it ends while it is watched": {[]string{at("29999000"), crashing}, 22, "process 22 was healthy and has ended, now activating (auto-restart)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &told{says: c.says}
			err := (&Health{proved: Status{PID: c.pid}}).bake(t.Context(), h, 30*time.Second)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || len(h.says) != c.left {
				t.Errorf("%v, left to say: %q; want %q", err, h.says, c.want)
			}
		})
	}
}

// The clock of a host is put back by an hour while its daemon is watched: that takes no hour longer.
func TestBakeWhenTheClockIsPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("watched for long enough")
		h := &told{says: []string{"Now=3601000000 " + strings.Replace(up, "=2000 ", "=3600000000 ", 1), "Now=5000000 " + strings.Replace(up, "=2000 ", "=3600000000 ", 1)}}
		c := &Health{proved: Status{PID: 22}, Settings: func(context.Context, host.Host) (program.Settings, error) { return program.Settings{}, enough }}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		if err := c.bake(ctx, h, 30*time.Second); !errors.Is(err, enough) || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A daemon is trusted when it has been up for some seconds by the clock of its host. The seconds
// that it was up before the first look are not waited for again.
func TestSteadyDaemons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says string
		ago  time.Duration
		wait time.Duration
	}{
		"it has just come up":         {"Now=5000000 StateChangeTimestamp=5000000 " + up, 0, settle},
		"it was up for a while":       {"Now=6000000 StateChangeTimestamp=5000000 " + up, 0, settle - time.Second},
		"and for another":             {"Now=6000000 StateChangeTimestamp=5000000 " + up, time.Second, settle - 2*time.Second},
		"it was up for long":          {"Now=9000000 StateChangeTimestamp=5000000 " + up, 0, 0},
		"nobody knows since when":     {"Now=9000000 " + up, 0, settle},
		"the clock has been put back": {"Now=1000000 StateChangeTimestamp=5000000 " + up, 0, settle},
		"it was just reloaded":        {"Now=9000000 StateChangeTimestamp=8000000 " + up, 0, settle - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, began := watch{Health: &Health{}, h: &told{says: []string{c.says}}, restarts: 1}, time.Now()
				if err := w.steady(t.Context(), parseStatus(strings.ReplaceAll(c.says, " ", "\n")), c.ago); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(began); got != c.wait {
					t.Errorf("it waits for %s, want %s", got, c.wait)
				}
			})
		})
	}
	// Whatever its age, the process must be the one that answered.
	w := watch{Health: &Health{}, h: &told{says: []string{crashing}}, restarts: 1}
	if err := w.steady(t.Context(), parseStatus("Now=9000000\nStateChangeTimestamp=5000000\nMainPID=22"), 0); err == nil || !strings.Contains(err.Error(), "process 22 ended") {
		t.Errorf("a daemon that has ended: %v", err)
	}
}

// A daemon that replaces a crashing one is not blamed for the restarts of that one.
func TestWhoIsBlamedForRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		says []string
		want string
	}{
		"a start that systemd was making already": {[]string{crashing, crashing, counted, up}, ""},
		"it crashes too":           {[]string{crashing, counted, again}, "does not stay up"},
		"it waits to be restarted": {[]string{crashing, strings.Replace(crashing, "1000", "2000", 1)}, "does not stay up"},
	} {
		w := watch{Health: &Health{Timeout: time.Minute}, h: &told{says: c.says}, deadline: time.Now().Add(time.Minute), old: time.UnixMicro(1000), replace: true}
		s, err := w.active(t.Context(), nil)
		if c.want == "" && (err != nil || s.PID != 22) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, %v; want %q", name, s, err, c.want)
		}
	}
}

// A start that systemd has not got to yet, as on a busy host, is waited for; a start that it has
// given up is reported. A daemon that waits for a command has not crashed, and one that waits for too long says
// for whom.
func TestStartThatWaits(t *testing.T) {
	t.Parallel()
	const stopped = "ExecMainStartTimestamp=1000 ActiveState=inactive SubState=dead NRestarts=0 MainPID=0"
	const waits = counted + " StatusText=held-by-process-4189"
	for name, c := range map[string]struct {
		says []string
		want string
	}{
		"it has its turn late": {append(slices.Repeat([]string{stopped + " Job=7"}, 100), up), ""},
		"it has been given up": {append(slices.Repeat([]string{stopped + " Job=7"}, 50), stopped), "systemd has not started the daemon: inactive (dead)"},
		"nobody has asked":     {[]string{stopped + " Job=0"}, "systemd has not started the daemon"},
		"a command ends":       {append(slices.Repeat([]string{waits}, 100), up), ""},
		"a command stays":      {[]string{waits}, "the daemon is still activating after 1m0s: held-by-process-4189"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch{Health: &Health{Timeout: time.Minute}, h: &told{says: c.says}, deadline: time.Now().Add(time.Minute), old: time.UnixMicro(1000), replace: true}
				s, err := w.active(t.Context(), nil)
				if c.want == "" && (err != nil || s.PID != 22) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, %v; want %q", s, err, c.want)
				}
			})
		})
	}
}

// A daemon whose process is gone, while systemd still calls it active, is not up, whoever looks, and
// does not run another program.
func TestProcessThatHasJustEnded(t *testing.T) {
	t.Parallel()
	d := &Daemon{Health: &Health{Settings: func(context.Context, host.Host) (program.Settings, error) { return program.Settings{}, nil }}}
	if n, err := d.lacks(t.Context(), &told{says: []string{ended}}); err != nil || n.action != revive || !strings.Contains(n.why, "its process has ended") {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := d.lacks(t.Context(), &told{says: []string{up}}); err != nil || n.action != restart {
		t.Errorf("another program: %+v, %v", n, err)
	}
	w := watch{Health: &Health{}, h: &told{says: []string{ended}}, restarts: 1}
	if err := w.steady(t.Context(), Status{PID: 22}, settle); err == nil || !strings.Contains(err.Error(), "process 22 ended") {
		t.Errorf("a process that has ended is steady: %v", err)
	}
}

// A daemon keeps the password that it has read when it started, whoever has changed the file since.
func TestFilesReadAtStart(t *testing.T) {
	t.Parallel()
	const password = "/etc/urifilter/mysql.password"
	h := &files{told: told{says: []string{"ExecMainStartTimestamp=2000000 ActiveState=active MainPID=22 Program=/opt/x"}}, changed: map[string]string{password: "1.5"}}
	d := &Daemon{Health: &Health{Settings: func(context.Context, host.Host) (program.Settings, error) {
		return program.Settings{AtStart: []string{"", password}}, nil
	}}}
	if n, err := d.lacks(t.Context(), h); err != nil || n.action != nothing {
		t.Errorf("a file that was there before: %+v, %v", n, err)
	}
	h.changed[password] = "2.5"
	if n, err := d.lacks(t.Context(), h); err != nil || n.action != restart || !strings.HasPrefix(n.why, password) {
		t.Errorf("a file that has changed since: %+v, %v", n, err)
	}
}

// files is a host with files that have changed at some seconds.
type files struct {
	told
	changed map[string]string
}

func (f *files) Run(ctx context.Context, c host.Command) (host.Output, error) {
	if !strings.Contains(c.Script, "stat -L") {
		return f.told.Run(ctx, c)
	}
	text := "program 0 /opt/x\n"
	for line := range strings.Lines(c.Script) {
		for path, at := range f.changed {
			if _, group, is := strings.Cut(line, "stat -Lc '"); is && strings.Contains(line, path) {
				text += strings.Fields(group)[0] + " " + at + " " + path + "\n"
			}
		}
	}
	return host.Output{Stdout: text}, nil
}
