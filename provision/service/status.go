// Package service starts, stops and watches the daemon on a host through systemd, and
// finds out whether it really serves: not by what systemctl start says, but by what the
// process does in the seconds after, and by a request that it answers. It installs no
// program and writes no settings.
package service

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// Status is what systemd and the kernel say about the daemon.
type Status struct {
	Load     string // loaded, not-found, masked
	Active   string // active, activating, reloading, deactivating, inactive, failed
	Sub      string // running, auto-restart, ...
	Result   string // success, exit-code, timeout, watchdog, ...
	Enabled  string // enabled, disabled, ...
	Pending  bool   // systemd has a job for it, such as a start that waits for its turn
	Text     string // what the daemon says it is doing
	ExitCode int    // of its last process that has ended
	PID      int    // 0: none
	Restarts int    // by systemd, since somebody started it
	// Socket is the state of the socket unit.
	Socket string
	// Started is when the process began, Changed when the unit last changed its state,
	// which a reload does too; zero: never.
	Started, Changed time.Time
	// Listening is when the socket unit began to listen.
	Listening time.Time
	// Now is the host's clock at the time of the query; Started uses the same clock.
	Now time.Time
	// Program is the file that the process runs, with " (deleted)" if it is gone.
	Program string
	Memory  int64 // bytes, 0 where systemd does not count
	// Unconfirmed: the host goes back to what ran before, unless a run confirms what runs now. See
	// Revert.
	Unconfirmed bool
	// Stopped: if it does, it will not start the daemon, because somebody has stopped it. See stoppedPath.
	Stopped bool
	// WentBack is when, and from which release, it did so; "": not since a run has confirmed something.
	WentBack string
}

// Age is how long the process has run.
func (s Status) Age() time.Duration { return s.Now.Sub(s.Started) }

// steady returns how long the daemon has been in its state, by the host's clock; 0 if unknown.
func (s Status) steady() time.Duration {
	if s.Changed.IsZero() {
		return 0
	}
	return max(0, s.Now.Sub(s.Changed))
}

// Running reports whether the daemon is up, by its own word, and has a process: systemd learns a moment
// later that one has ended.
func (s Status) Running() bool {
	return (s.Active == "active" || s.Active == "reloading") && s.Program != ""
}

// crashed reports whether a process of the daemon has ended by itself since systemd had
// counted that many restarts.
func (s Status) crashed(restarts int) bool {
	return s.Active == "failed" || s.Sub == "auto-restart" || s.Restarts > restarts
}

// settled returns how many restarts to ignore: only those of a process that is being watched
// count.
func (s Status) settled() int {
	if s.Running() {
		return s.Restarts
	}
	return 0
}

// Short describes the state in one or two words.
func (s Status) Short() string {
	switch {
	case s.Load == "not-found":
		return "not installed"
	case s.looping():
		return "crash loop"
	case s.Active == "":
		return "unknown"
	}
	return s.Active
}

// looping reports whether systemd starts it again and again: it waits for the next start, is
// in one that is not the first, or has just seen one fail.
func (s Status) looping() bool {
	switch s.Active {
	case "activating":
		return s.Sub == "auto-restart" || s.Restarts > 1
	case "deactivating":
		return s.Restarts > 1 && s.Result != "" && s.Result != "success"
	}
	return false
}

// String describes the state in one line for people.
func (s Status) String() string {
	switch {
	case s.Load == "not-found":
		return "not installed"
	case s.Running():
		return fmt.Sprintf("active, process %d since %s", s.PID, s.Started.UTC().Format("2006-01-02 15:04:05"))
	}
	text := s.Active + " (" + s.Sub + ")"
	if s.Active == "active" {
		text += ", but its process has ended"
	}
	if s.Result != "" && s.Result != "success" {
		text += ", " + s.Result
		if s.ExitCode != 0 {
			text += fmt.Sprintf(" %d", s.ExitCode)
		}
	}
	if s.Restarts > 0 {
		text += ", restarted " + times(s.Restarts)
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Advice returns what to do about a program's daemon that does not run on a host, "" for one
// that does.
func (s Status) Advice(p systemd.Program, host string) string {
	switch {
	case s.Load == "not-found":
		return "go tool mage deploy -hosts=" + host
	case s.Load == "masked":
		return "it is masked: systemctl unmask " + p.Name + ", on the host"
	case s.Running():
		return ""
	case s.Active == "failed" || s.looping():
		return s.String() + ": go tool mage " + p.Name + ":logs -hosts=" + host + " says why"
	case s.Active == "inactive":
		return "go tool mage " + p.Name + ":start -hosts=" + host
	}
	return s.String()
}

// properties are those of the service and the socket that make a Status.
const properties = "LoadState,ActiveState,SubState,Job,Result,UnitFileState,StatusText,ExecMainStatus,MainPID,NRestarts,MemoryCurrent,ExecMainStartTimestamp,StateChangeTimestamp,ActiveEnterTimestamp"

// statusScript prints three paragraphs: one for the service, one for the socket, and one for what
// systemd does not know. It starts as few programs as possible, because it runs several times in
// a deployment, and repeatedly while a daemon is awaited.
const statusScript = `
all=$(systemctl show --timestamp=us+utc -p ` + properties + ` $u $s)
printf '%s\n\nNow=%s\n' "$all" "$(date +%s%6N)"
pid=${all#*MainPID=} pid=${pid%%[!0-9]*}
[ "${pid:-0}" = 0 ] || echo "Program=$(readlink "/proc/$pid/exe")"` + revertStatus

// revertStatus is the part of both scripts about Revert.
const revertStatus = `
[ ! -e "$r" ] || echo Unconfirmed=1
[ ! -e "$m" ] || echo Stopped=1
[ ! -e "$b" ] || echo "WentBack=$(cat "$b")"`

// oldStatusScript is for a systemd before 247, which prints times in whole seconds: it reads them
// from the bus instead, and first, so that a state is never older than the start it belongs to.
const oldStatusScript = `
at() { busctl get-property org.freedesktop.systemd1 "/org/freedesktop/systemd1/unit/${n}_2e$1" "org.freedesktop.systemd1.$2" "$3" 2>/dev/null | cut -d' ' -f2; }
start=$(at service Service ExecMainStartTimestamp) change=$(at service Unit StateChangeTimestamp) enter=$(at socket Unit ActiveEnterTimestamp)
all=$(systemctl show -p ` + properties + ` $u $s | sed '/Timestamp=/d')
printf '%s\nActiveEnterTimestamp=%s\n\nExecMainStartTimestamp=%s\nStateChangeTimestamp=%s\nNow=%s\n' "$all" "$enter" "$start" "$change" "$(date +%s%6N)"
pid=${all#*MainPID=} pid=${pid%%[!0-9]*}
[ "${pid:-0}" = 0 ] || echo "Program=$(readlink "/proc/$pid/exe")"` + revertStatus

// StatusOf queries a host for the status of a program's daemon. One that is not installed has
// a status too.
func StatusOf(ctx context.Context, h host.Host, p systemd.Program) (Status, error) {
	return statusOf(ctx, h, p, host.Command{Watch: true})
}

// LastStatus is StatusOf for those who need not know what has happened by itself since the host was last
// asked or changed.
func LastStatus(ctx context.Context, h host.Host, p systemd.Program) (Status, error) {
	return statusOf(ctx, h, p, host.Command{Look: true})
}

func statusOf(ctx context.Context, h host.Host, p systemd.Program, how host.Command) (Status, error) {
	var s Status
	for _, script := range []string{statusScript, oldStatusScript} {
		script = fmt.Sprintf("n=%s u=%s s=%s r=%s m=%s b=%s", host.Quote(p.Name), host.Quote(p.Service()), host.Quote(p.Socket()), host.Quote(p.RevertScript()), host.Quote(stoppedPath(p)), host.Quote(wentBackPath(p))) + script
		how.Root, how.Script, how.OK = true, script, []int{1}
		out, err := h.Run(ctx, how)
		if err != nil {
			return Status{}, fmt.Errorf("ask systemd: %w", err)
		}
		var exact bool
		if s, exact = statusIn(out.Stdout); exact {
			break
		}
	}
	return s, nil
}

// systemdTime is how systemctl prints times with --timestamp=us+utc.
const systemdTime = "Mon 2006-01-02 15:04:05.000000 MST"

// statusIn reads the output of a script. exact is false if an answer is missing or inexact.
func statusIn(text string) (s Status, exact bool) {
	m := map[string]string{}
	of, paragraph := [...]string{"", "Socket", ""}, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			paragraph = min(paragraph+1, len(of)-1)
		}
		key, value, _ := strings.Cut(line, "=")
		m[of[paragraph]+key] = value
	}
	exact = m["LoadState"] != ""
	// A missing number is 0, as for a daemon that has never run.
	number := func(key string) int64 {
		n, _ := strconv.ParseUint(m[key], 10, 64)
		if n > 1<<62 {
			return 0 // systemd's value for "not known"
		}
		return int64(n)
	}
	at := func(key string) time.Time {
		if n := number(key); n > 0 {
			return time.UnixMicro(n)
		}
		t, err := time.Parse(systemdTime, m[key])
		if err != nil && !slices.Contains([]string{"", "n/a", "0"}, m[key]) {
			exact = false
		}
		return t
	}
	s = Status{
		Load: m["LoadState"], Active: m["ActiveState"], Sub: m["SubState"], Result: m["Result"], Enabled: m["UnitFileState"], Text: m["StatusText"], Pending: number("Job") > 0,
		ExitCode: int(number("ExecMainStatus")), PID: int(number("MainPID")), Restarts: int(number("NRestarts")),
		Socket: m["SocketActiveState"], Started: at("ExecMainStartTimestamp"), Changed: at("StateChangeTimestamp"), Listening: at("SocketActiveEnterTimestamp"), Now: at("Now"),
		Program: m["Program"], Memory: number("MemoryCurrent"), Unconfirmed: m["Unconfirmed"] != "", Stopped: m["Stopped"] != "", WentBack: m["WentBack"],
	}
	return s, exact
}
