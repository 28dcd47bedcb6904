package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/systemd"
)

// journalTail is how many lines of the journal an error shows.
const journalTail = 20

// bringUp makes the daemon run as installed, and returns the action that this took.
func (h *unitHost) bringUp(ctx context.Context) (string, error) {
	s, err := h.show(ctx, h.program.Service())
	switch {
	case err != nil:
		return "", err
	case !s.running():
		return "started", h.start(ctx)
	case h.newer(h.program.Service(), s.since) || h.portChanged(ctx):
		return "restarted", h.restart(ctx)
	}
	return "none", nil
}

func (h *unitHost) start(ctx context.Context) error {
	if err := h.installed(ctx); err != nil {
		return err
	}
	// After a crash loop systemd starts nothing until the failures are reset. The command fails
	// for a unit that is not loaded, which has no failures.
	_ = h.systemctl(ctx, "reset-failed", h.program.Service(), h.program.Socket())
	return h.up(ctx, "start", h.program.Socket(), h.program.Service())
}

func (h *unitHost) stop(ctx context.Context) error {
	if err := h.installed(ctx); err != nil {
		return err
	}
	// In one transaction, so that no caller starts the daemon again in between.
	return h.systemctl(ctx, "stop", h.program.Socket(), h.program.Service(), h.program.Retry())
}

// restart keeps the port open, unless its unit now has a different one.
func (h *unitHost) restart(ctx context.Context) error {
	if err := h.installed(ctx); err != nil {
		return err
	}
	if h.portChanged(ctx) {
		if err := h.stop(ctx); err != nil {
			return err
		}
		return h.start(ctx)
	}
	_ = h.systemctl(ctx, "reset-failed", h.program.Service(), h.program.Socket())
	if err := h.systemctl(ctx, "start", h.program.Socket()); err != nil {
		return err
	}
	return h.up(ctx, "restart", h.program.Service())
}

func (h *unitHost) reload(ctx context.Context) error {
	if err := h.installed(ctx); err != nil {
		return err
	}
	since := time.Now()
	if err := h.systemctl(ctx, "reload", h.program.Service()); err != nil {
		return h.withJournal(ctx, err, since)
	}
	return nil
}

// up runs a systemctl command after which the daemon must run: it waits until the daemon
// itself reports that it serves.
func (h *unitHost) up(ctx context.Context, args ...string) error {
	since := time.Now()
	err := h.systemctl(ctx, args...)
	if err == nil {
		var s unitState
		if s, err = h.show(ctx, h.program.Service()); err == nil && !s.running() {
			err = fmt.Errorf("%s is %s right after its start", h.program.Service(), s)
		}
	}
	if err != nil {
		return h.withJournal(ctx, err, since)
	}
	return nil
}

// installed returns an error if the service is not installed. If its files have changed, it makes
// systemd read them.
func (h *unitHost) installed(ctx context.Context) error {
	s, err := h.show(ctx, h.program.Service())
	port, failed := h.show(ctx, h.program.Socket())
	if err = errors.Join(err, failed); err == nil && (s.stale || port.stale) {
		err = h.systemctl(ctx, "daemon-reload")
	}
	if err == nil && s.Load != "loaded" {
		err = fmt.Errorf("%s is not installed\nhint: %s service install", h.program.Service(), h.program.Name)
	}
	return err
}

// portChanged reports whether the open socket may differ from the present description in its
// unit.
func (h *unitHost) portChanged(ctx context.Context) bool {
	s, err := h.show(ctx, h.program.Socket())
	return err == nil && s.running() && h.newer(h.program.Socket(), s.since)
}

// newer reports whether the files of a unit were changed after at. An unknown time counts as no
// change.
func (h *unitHost) newer(unit string, at time.Time) bool {
	paths, _ := filepath.Glob(filepath.Join(h.dir, unit+".d", "*.conf")) // the pattern is valid
	for _, path := range append(paths, filepath.Join(h.dir, unit)) {
		if info, err := os.Stat(path); err == nil && !at.IsZero() && info.ModTime().After(at) {
			return true
		}
	}
	return false
}

// withJournal adds to an error the daemon's log since then.
func (h *unitHost) withJournal(ctx context.Context, err error, since time.Time) error {
	out, failed := h.run(ctx, "journalctl", "--unit="+h.program.Service(), "--unit="+h.program.Socket(), "--no-pager", "--quiet", "--output=cat",
		fmt.Sprintf("--lines=%d", journalTail), fmt.Sprintf("--since=@%d", since.Unix()))
	if failed != nil || strings.TrimSpace(out) == "" {
		return fmt.Errorf("%w\nhint: journalctl --unit=%s", err, h.program.Service())
	}
	return fmt.Errorf("%w; the end of its journal:\n  %s\nhint: journalctl --unit=%s shows more",
		err, strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n  "), h.program.Service())
}

// removal is the result of uninstall.
type removal struct {
	Changed bool     `json:"changed"`
	Removed []string `json:"removed"`
}

func uninstallUnits(cmd *cobra.Command, h *unitHost, asJSON bool) error {
	if err := h.mayChange("service uninstall"); err != nil {
		return err
	}
	done, err := h.remove(cmd.Context())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		return command.WriteJSON(out, done)
	}
	for _, path := range done.Removed {
		fmt.Fprintf(out, "%s: removed\n", path)
	}
	if !done.Changed {
		fmt.Fprintln(out, "unchanged: not installed")
	}
	return nil
}

// remove stops the units, in one transaction, and removes the files that install has written.
func (h *unitHost) remove(ctx context.Context) (removal, error) {
	done := removal{Removed: []string{}}
	var names []string
	for _, name := range []string{h.program.Socket(), h.program.Service(), h.program.Retry(), h.program.JobTimer(), h.program.JobService()} {
		if name == "" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(h.dir, name)); err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return done, nil
	}
	if err := h.systemctl(ctx, append([]string{"stop"}, names...)...); err != nil {
		return done, err
	}
	for _, name := range names {
		path := filepath.Join(h.dir, name)
		if name == h.program.Retry() || name == h.program.JobService() { // these are never enabled
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return done, err
			}
		} else if err := h.unregister(ctx, name); err != nil {
			return done, err
		}
		done.Changed, done.Removed = true, append(done.Removed, path)
	}
	_ = h.systemctl(ctx, append([]string{"reset-failed"}, names...)...) // fails for units that had not failed
	return done, h.systemctl(ctx, "daemon-reload")
}

// unregister disables a unit and removes its file.
func (h *unitHost) unregister(ctx context.Context, name string) error {
	if name == h.program.Service() && h.dir == systemd.Dir {
		s, err := registration(h.program, "")
		if err != nil {
			return err
		}
		return s.Uninstall()
	}
	if err := h.systemctl(ctx, "disable", name); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(h.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
