package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/systemd"
)

type installOptions struct {
	config, binary, user, group string
	run                         string // the daemon's command
	timer, timerGiven           bool
	now, dryRun                 bool
}

// unitChange is the change of one unit file.
type unitChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`         // created, updated, removed, unchanged
	Diff   string `json:"diff,omitempty"` // hunks of a unified diff

	name    string
	content []byte
}

// installation is what install does, or would do.
type installation struct {
	Changed bool         `json:"changed"`
	DryRun  bool         `json:"dry_run"`
	Units   []unitChange `json:"units"`
	Enabled []string     `json:"enabled"` // units that were not enabled before, or a timer that did not run
	Action  string       `json:"action"`  // started, restarted, none

	disable []string
}

func installUnits(cmd *cobra.Command, h *unitHost, s Settings, o installOptions, asJSON bool) error {
	ctx := cmd.Context()
	if !o.dryRun {
		if err := h.mayChange("service install"); err != nil {
			return err
		}
	}
	o.run = cmp.Or(o.run, h.runs(), s.Program.Commands()[0])
	files, err := wantedUnits(s, o)
	if err != nil {
		return err
	}
	if !o.dryRun {
		if err := h.verify(ctx, files); err != nil {
			return err
		}
	}
	in, err := h.compare(ctx, files, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		in.DryRun, in.Action = true, "none"
		if err := in.show(cmd.OutOrStdout(), s.Program, asJSON, true); err != nil || !in.Changed {
			return err
		}
		return command.ExitCode(exitWouldChange)
	}
	if err := h.apply(ctx, in); err != nil {
		return err
	}
	in.Action = "none"
	if o.now {
		if in.Action, err = h.bringUp(ctx); err != nil {
			return err
		}
	}
	if err := in.show(cmd.OutOrStdout(), s.Program, asJSON, false); err != nil || asJSON || o.now {
		return err
	}
	if in.concernsDaemon(s.Program) {
		fmt.Fprintf(cmd.ErrOrStderr(), "hint: nothing was started or restarted: %s service restart\n", s.Program.Name)
	}
	return nil
}

// wantedUnits renders all units, after checking what they refer to.
func wantedUnits(s Settings, o installOptions) ([]systemd.File, error) {
	path := s.Find(o.config)
	if path == "" {
		return nil, fmt.Errorf("service install: there are no settings: %s\nhint: %s config example > %[1]s, and change what differs here", s.Default, s.Program.Name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	p, err := s.Read(path, o.run)
	if err != nil {
		return nil, err
	}
	p.Run, p.Binary, p.Config, p.User, p.Group = o.run, o.binary, path, o.user, o.group
	files, err := systemd.Render(s.Program, p)
	if err != nil {
		return nil, fmt.Errorf("service install: %w", err)
	}
	if o.dryRun {
		return files, nil
	}
	if info, err := os.Stat(o.binary); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("service install: %s is no program that can be run: %w\nhint: put the program there, or name another with --binary", o.binary, cmp.Or(err, fs.ErrInvalid))
	}
	if o.user == "" {
		o.user = s.Program.User()
	}
	if _, err := user.Lookup(o.user); err != nil {
		return nil, fmt.Errorf("service install: %w\nhint: useradd --system --user-group --no-create-home --home-dir %s --shell /usr/sbin/nologin %s", err, p.DataDir, o.user)
	}
	// The toolkit's file, whose line does the timer's work.
	if _, err := os.Stat(s.Program.Crontab()); err == nil && o.timer {
		return nil, fmt.Errorf("service install --timer: %s does the same every month\nhint: remove one of the two", s.Program.Crontab())
	}
	return files, nil
}

// runs returns the command in the installed unit, "" if there is none that the program knows.
func (h *unitHost) runs() string {
	text, err := os.ReadFile(filepath.Join(h.dir, h.program.Service()))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		command, isStart := strings.CutPrefix(line, "ExecStart=")
		before, _, _ := strings.Cut(command, " --config ")
		_, run, _ := strings.Cut(before, " ")
		if isStart && slices.Contains(h.program.Commands(), run) {
			return run
		}
	}
	return ""
}

// isTimed reports whether --timer concerns a unit.
func (h *unitHost) isTimed(name string) bool {
	return name == h.program.JobService() || name == h.program.JobTimer()
}

// compare finds the required changes.
func (h *unitHost) compare(ctx context.Context, files []systemd.File, o installOptions) (*installation, error) {
	in := &installation{Units: []unitChange{}, Enabled: []string{}}
	timed := o.timer
	if !o.timerGiven && h.program.Job != nil {
		_, err := os.Stat(filepath.Join(h.dir, h.program.JobTimer()))
		timed = err == nil
	}
	for _, f := range files {
		c := unitChange{Path: filepath.Join(h.dir, f.Name), name: f.Name, content: f.Content}
		if target, err := os.Readlink(c.Path); err == nil && target == os.DevNull {
			return nil, fmt.Errorf("%s is masked\nhint: systemctl unmask %s", c.Path, f.Name)
		}
		have, err := os.ReadFile(c.Path)
		there := err == nil
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case h.isTimed(f.Name) && !timed && !there:
			continue
		case h.isTimed(f.Name) && !timed:
			c.Change, c.content, c.Diff = "removed", nil, hunks(string(have), "")
		case there && bytes.Equal(have, f.Content):
			c.Change = "unchanged"
		case there:
			c.Change, c.Diff = "updated", hunks(string(have), string(f.Content))
		default:
			c.Change, c.Diff = "created", hunks("", string(f.Content))
		}
		in.Changed = in.Changed || c.Change != "unchanged"
		in.Units = append(in.Units, c)
		if c.Change == "removed" && f.Name == h.program.JobTimer() {
			in.disable = append(in.disable, f.Name)
		}
	}
	enabled := []string{h.program.Service(), h.program.Socket()}
	if o.timer { // without --timer, a disabled timer stays disabled
		enabled = append(enabled, h.program.JobTimer())
	}
	for _, name := range enabled {
		// For a missing unit these commands fail, and print another word or nothing.
		out, _ := h.run(ctx, "systemctl", "is-enabled", name)
		on := strings.TrimSpace(out) == "enabled"
		if on && name == h.program.JobTimer() { // an install that was broken off may not have started it
			out, _ = h.run(ctx, "systemctl", "is-active", name)
			on = strings.TrimSpace(out) == "active"
		}
		if !on {
			in.Enabled, in.Changed = append(in.Enabled, name), true
		}
	}
	return in, nil
}

// concernsDaemon reports whether the daemon's own units have changed.
func (in *installation) concernsDaemon(p systemd.Program) bool {
	return slices.ContainsFunc(in.Units, func(u unitChange) bool {
		return u.Change != "unchanged" && (u.name == p.Service() || u.name == p.Socket())
	})
}

// hunks returns the differences between two texts as in `diff -u`, without its two header lines.
func hunks(from, to string) string {
	_, text, _ := strings.Cut(udiff.Unified("", "", from, to), "\n")
	_, text, _ = strings.Cut(text, "\n")
	return text
}

// show prints what was done, or with diffs what would be.
func (in *installation) show(w io.Writer, p systemd.Program, asJSON, diffs bool) error {
	if asJSON {
		return command.WriteJSON(w, in)
	}
	var b strings.Builder
	for _, u := range in.Units {
		fmt.Fprintf(&b, "%s: %s\n", u.Path, u.Change)
		if diffs && u.Diff != "" {
			b.WriteString(u.Diff)
		}
	}
	for _, name := range in.Enabled {
		fmt.Fprintf(&b, "%s: enabled\n", name)
	}
	if in.Action != "none" {
		fmt.Fprintf(&b, "%s: %s\n", p.Service(), in.Action)
	}
	if !in.Changed && in.Action == "none" {
		b.WriteString("unchanged\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
