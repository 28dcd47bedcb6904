package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// Daemon starts and stops a program's daemon on one host. Its steps belong to one run.
type Daemon struct {
	// Health checks the daemon, and says which program it is.
	Health *Health
	// Read are the files that the daemon reads when it starts, besides those that its settings
	// name. Globs are allowed; files that do not exist are ignored.
	Read []string
	// Pending returns what earlier steps have changed, or in a plan would change: why the
	// daemon must be restarted, and why it must be reloaded. "" means nothing.
	Pending func() (restart, reload string)
}

// program returns the program whose daemon it is.
func (d *Daemon) program() systemd.Program { return d.Health.Program.Program }

// unitFiles returns the files of a unit that affect what runs.
func unitFiles(unit string) []string {
	return []string{systemd.Dir + "/" + unit, systemd.Dir + "/" + unit + ".d/*.conf"}
}

// Groups of files that are compared with what runs.
const (
	ofDaemon = "daemon"
	ofSocket = "socket"
	ofReload = "reread"
)

// need is what a host's daemon needs, and why.
type need struct {
	action int
	why    string
}

const (
	nothing = iota
	reload
	revive  // the daemon; its port is open, and callers wait at it
	restart // the daemon
	start   // the daemon and its port
	rebind  // restart the port, too
)

// Running is the step after which the daemon runs the current release with the current
// contents of its files. The kernel and systemd say whether it does; nothing is remembered.
func (d *Daemon) Running() step.Wish {
	var began time.Time // of the start that has just succeeded; zero: there was none since the last look
	return step.NewWish("service: running", func(ctx context.Context, h host.Host) (*step.Change, error) {
		started := began
		began = time.Time{}
		n, err := d.lacks(ctx, h)
		if err != nil {
			return nil, err
		}
		if (n.action == revive || n.action == start) && !started.IsZero() {
			return nil, withJournal(ctx, h, d.program(), fmt.Errorf("the daemon does not stay up: %s", n.why), time.Since(started))
		}
		n = d.expect(n)
		if n.action == nothing {
			return nil, nil
		}
		verb := map[int]string{start: "start", revive: "start", reload: "reload", restart: "restart", rebind: "restart with its port"}[n.action]
		return &step.Change{
			Summary: verb + ": " + n.why,
			Apply: func(ctx context.Context) error {
				now := time.Now()
				err := d.act(ctx, h, n.action)
				if err == nil {
					began = now
				}
				return err
			},
		}, nil
	})
}

// expect adds the changes that are known to be pending.
func (d *Daemon) expect(n need) need {
	if d.Pending == nil {
		return n
	}
	again, reread := d.Pending()
	switch {
	case n.action < restart && again != "":
		return need{restart, again}
	case n.action < reload && reread != "":
		return need{reload, reread}
	}
	return n
}

// lacks compares what runs with what is on the disk.
func (d *Daemon) lacks(ctx context.Context, h host.Host) (need, error) {
	p := d.program()
	s, err := LastStatus(ctx, h, p)
	switch {
	case err != nil:
		return need{}, err
	case s.Load == "masked":
		return need{}, fmt.Errorf("%s is masked\nhint: systemctl unmask %s, on the host", p.Service(), p.Name)
	case s.Load != "loaded":
		return need{start, "it is not installed"}, nil
	case s.Socket != "active":
		return need{start, p.Socket() + " is " + s.Socket}, nil
	}
	files, err := d.look(ctx, h)
	if err != nil {
		return need{}, err
	}
	if changed := newer(files[ofSocket], s.Listening); changed != "" {
		return need{rebind, changed + " has changed"}, nil
	}
	if !s.Running() {
		return need{revive, "it is " + s.String()}, nil
	}
	if s.Program != files.program() {
		return need{restart, fmt.Sprintf("it runs %s, and current is %s", short(s.Program), short(files.program()))}, nil
	}
	if changed := newer(files[ofDaemon], s.Started); changed != "" {
		return need{restart, changed + " has changed since it was started"}, nil
	}
	reread := s.Started
	if s.Changed.After(reread) {
		reread = s.Changed // a reload was the last thing that happened to it
	}
	if changed := newer(files[ofReload], reread); changed != "" {
		return need{reload, changed + " has changed since it was read"}, nil
	}
	return need{}, nil
}

// seen are the files of each group with the times of their last change; the program is a
// group of its own, with its real path.
type seen map[string]map[string]time.Time

func (s seen) program() string {
	for path := range s["program"] {
		return path
	}
	return ""
}

func (d *Daemon) look(ctx context.Context, h host.Host) (seen, error) {
	settings, err := d.Health.Settings(ctx, h)
	if err != nil {
		return nil, err
	}
	script := fmt.Sprintf("echo \"program 0 $(readlink -f %s)\"\n", host.Quote(d.program().Binary()))
	group := func(name string, patterns []string) {
		// Patterns are unquoted, so that the shell expands them; unquotable ones are left out.
		patterns = slices.DeleteFunc(slices.Clone(patterns), unquotable)
		if len(patterns) == 0 {
			return
		}
		script += fmt.Sprintf("set --; for f in %s; do [ ! -e \"$f\" ] || set -- \"$@\" \"$f\"; done; [ $# -eq 0 ] || stat -Lc '%s %%.6Z %%n' -- \"$@\"\n", strings.Join(patterns, " "), name)
	}
	group(ofDaemon, slices.Concat(unitFiles(d.program().Service()), d.Read, settings.AtStart))
	group(ofSocket, unitFiles(d.program().Socket()))
	group(ofReload, append([]string{settings.TokensFile}, settings.Reread...))
	out, err := h.Run(ctx, host.Command{Root: true, Script: script, Look: true})
	if err != nil {
		return nil, fmt.Errorf("look at the daemon's files: %w", err)
	}
	found := seen{}
	for line := range strings.Lines(out.Stdout) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(parts) != 3 {
			continue
		}
		if found[parts[0]] == nil {
			found[parts[0]] = map[string]time.Time{}
		}
		seconds, err := strconv.ParseFloat(parts[1], 64)
		if err != nil {
			return nil, fmt.Errorf("look at the daemon's files: stat wrote %q", line)
		}
		found[parts[0]][parts[2]] = time.UnixMicro(int64(seconds * 1e6))
	}
	return found, nil
}

// unquotable reports whether a pattern has characters that the shell would take for more than
// a part of a file's name.
func unquotable(pattern string) bool {
	return pattern == "" || strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./*@+:") != ""
}

// newer returns the first file by name that has changed after at, "" if none has.
func newer(files map[string]time.Time, at time.Time) string {
	first := ""
	for path, changed := range files {
		if changed.After(at) && (first == "" || path < first) {
			first = path
		}
	}
	return first
}

// short returns the release in the path of a program.
func short(path string) string {
	if _, rest, ok := strings.Cut(path, "/releases/"); ok {
		id, _, _ := strings.Cut(rest, "/")
		if strings.HasSuffix(path, " (deleted)") {
			id += ", which was removed"
		}
		return id
	}
	if path == "" {
		return "nothing"
	}
	return path
}

// act performs an action and waits until the daemon is up. It does not wait in systemctl,
// because Health decides how long a start may take.
func (d *Daemon) act(ctx context.Context, h host.Host, action int) error {
	began := time.Now()
	p := d.program()
	before, err := StatusOf(ctx, h, p)
	if err != nil {
		return err
	}
	unit, socket := p.Service(), p.Socket()
	// systemd starts a unit that crashed too often only after this reset.
	script := "systemctl reset-failed " + unit + " " + socket + " 2>/dev/null\n" + host.Reread(unit, socket)
	switch action {
	case reload:
		script = "systemctl reload " + unit
	case revive, restart:
		script += "systemctl start " + socket + " && systemctl restart --no-block " + unit
	case start, rebind:
		script += "systemctl stop " + unit + " && systemctl restart " + socket + " && systemctl start --no-block " + unit
	}
	d.Health.acted = began
	_, err = h.Run(ctx, host.Command{Root: true, Script: script})
	if errors.As(err, new(*host.CommandError)) && action != reload {
		err = portless(ctx, h, p, err)
	}
	if err == nil && action != reload {
		w := watch{Health: d.Health, h: h, deadline: began.Add(d.Health.Timeout), old: before.Started, replace: true}
		_, err = w.active(ctx, nil)
	}
	if err != nil && ctx.Err() == nil {
		return withJournal(ctx, h, p, err, time.Since(began))
	}
	return err
}

// portless returns a clearer error if a start failed because of the port.
func portless(ctx context.Context, h host.Host, p systemd.Program, err error) error {
	if s, unknown := StatusOf(ctx, h, p); unknown != nil || s.Socket != "failed" {
		return err
	}
	return fmt.Errorf("%s cannot listen: the reason is below\nhint: ss -ltnp, on the host, says who has the port; choose another \"listen\", or free it", p.Socket())
}

// Restart is the step that restarts the daemon in any case.
func (d *Daemon) Restart() step.Wish {
	return step.NewWish("service: restart", func(ctx context.Context, h host.Host) (*step.Change, error) {
		n, err := d.lacks(ctx, h)
		if err != nil {
			return nil, err
		}
		action := max(restart, n.action)
		return &step.Change{Summary: "restart", Act: true, Apply: func(ctx context.Context) error { return d.act(ctx, h, action) }}, nil
	})
}

// Start is the step that starts the daemon, unless it and its port are up already.
func (d *Daemon) Start() step.Wish {
	return step.NewWish("service: start", func(ctx context.Context, h host.Host) (*step.Change, error) {
		s, err := StatusOf(ctx, h, d.program())
		if err != nil || s.Running() && s.Socket == "active" {
			return nil, err
		}
		if s.Load != "loaded" {
			return nil, fmt.Errorf("%s is %s\nhint: go tool mage deploy, or install:service", d.program().Service(), s)
		}
		n, err := d.lacks(ctx, h)
		if err != nil {
			return nil, err
		}
		action := max(revive, n.action)
		return &step.Change{Summary: "start: it is " + s.String(), Apply: func(ctx context.Context) error { return d.act(ctx, h, action) }}, nil
	})
}

// Stopping returns a script that stops a program's daemon and its port: the socket too, because
// otherwise the next caller would start the daemon again. It also clears the state "failed".
// Units that do not exist are ignored.
func Stopping(p systemd.Program) string {
	return "for u in " + p.Socket() + " " + p.Retry() + " " + p.Service() + `; do
	[ "$(systemctl show -p ActiveState --value $u)" = inactive ] || systemctl stop $u || exit
done
systemctl reset-failed ` + p.Service() + " " + p.Socket() + " 2>/dev/null || :"
}

// Stop is the step after which neither the daemon nor its port is up, and the host does not start them
// when it goes back from what nobody has confirmed.
func Stop(p systemd.Program) step.Wish {
	return step.NewWish("service: stop", func(ctx context.Context, h host.Host) (*step.Change, error) {
		s, err := StatusOf(ctx, h, p)
		if err != nil || s.Load != "loaded" || s.Active == "inactive" && s.Socket != "active" && (!s.Unconfirmed || s.Stopped) {
			return nil, err
		}
		return &step.Change{Summary: "stop: it is " + s.String(), Apply: func(ctx context.Context) error {
			return host.AsRoot(ctx, h, fmt.Sprintf("[ ! -e %s ] || touch %s\n", host.Quote(p.RevertScript()), host.Quote(stoppedPath(p)))+Stopping(p))
		}}, nil
	})
}
