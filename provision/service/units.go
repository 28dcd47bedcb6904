package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// Units are the systemd units of a program's daemon on a host.
type Units struct {
	Program systemd.Program
	// Run is the program's command that runs as the daemon; "": the first.
	Run string
	// Binary is the path of the release's program, which registers itself.
	Binary func() string
	// Config is the path of its settings.
	Config string
	// User and Group run the daemon.
	User, Group string
	// MemoryMax and OpenFiles bound the daemon, in a drop-in of the toolkit; "" and 0: as
	// the unit has it.
	MemoryMax string
	OpenFiles int
	// Ahead reports whether, in a plan, the settings of the host are not yet what they will
	// be; then, and where the program does not exist yet, the units are those that this version
	// makes of the Wanted settings.
	Ahead  func() bool
	Wanted func(ctx context.Context) (program.Settings, error)
}

// limitsPath is the path of the toolkit's drop-in. Those of an administrator come after it.
func limitsPath(p systemd.Program) string {
	return systemd.Dir + "/" + p.Service() + ".d/50-" + host.Toolkit + ".conf"
}

// Alone returns an error if the host has the program's package, whose units and settings are in the same places.
func (u *Units) Alone(ctx context.Context, h host.Host) error {
	out, err := h.Run(ctx, host.Command{Script: "! [ -e /usr/lib/systemd/system/" + host.Quote(u.Program.Service()) + " ] || echo there", Look: true})
	if err == nil && out.Stdout != "" {
		err = fmt.Errorf("%s has the package %[2]s, which has its own units and settings\nhint: apt-get remove %[2]s, on the host, makes it one of the toolkit: the data stay, and settings come from the inventory", h.Name(), u.Program.Name)
	}
	return err
}

// Steps returns the steps that put the units on the host.
func (u *Units) Steps() []step.Wish { return []step.Wish{u.limits(), u.install()} }

func (u *Units) limits() step.Undoer {
	var lines []string
	if u.MemoryMax != "" {
		lines = append(lines, "MemoryMax="+u.MemoryMax)
	}
	if u.OpenFiles != 0 {
		lines = append(lines, fmt.Sprintf("LimitNOFILE=%d", u.OpenFiles))
	}
	wish := host.File{Path: limitsPath(u.Program), Mode: 0o644} // without content: there must be none
	if lines != nil {
		wish.Content = "# " + host.Written + " from \"service\" of its inventory.\n[Service]\n" + strings.Join(lines, "\n") + "\n"
	}
	return step.NewUndoer("service: limits", func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		before, _, err := host.ReadFile(ctx, h, wish.Path)
		if err != nil || wish.Same(before) || wish.Content == "" && before.Content == "" {
			return nil, nil, err
		}
		change := &step.Change{
			Summary: "write " + wish.Path, Diff: diff.Unified(wish.Path, before.Content, wish.Content),
			Apply: func(ctx context.Context) error { return host.PutUnits(ctx, h, wish) },
		}
		before.Path = wish.Path
		return change, func(ctx context.Context, h host.Host) (string, error) {
			return "limits are as they were before", host.PutUnits(ctx, h, before)
		}, nil
	})
}

// install is the step in which the program registers itself.
func (u *Units) install() step.Undoer {
	return step.NewUndoer("service: units", func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		if err := u.Alone(ctx, h); err != nil {
			return nil, nil, err
		}
		before, err := read(ctx, h, u.Program)
		if err != nil {
			return nil, nil, err
		}
		differs, diff, there := false, "", !u.Ahead()
		if there {
			differs, diff, there, err = u.compareUnits(ctx, h)
		}
		if !there && err == nil {
			differs, diff, err = u.foresee(ctx, before)
		}
		if err != nil || !differs {
			return nil, nil, err
		}
		change := &step.Change{Summary: "register with systemd", Diff: diff, Apply: func(ctx context.Context) error {
			_, err := h.Run(ctx, host.Command{Root: true, Script: u.command()})
			return u.said(err)
		}}
		return change, func(ctx context.Context, h host.Host) (string, error) { return before.restore(ctx, h, u.Program) }, nil
	})
}

func (u *Units) command(more ...string) string {
	words := append([]string{u.Binary(), "service", "install", "--config", u.Config, "--user", u.User, "--group", u.Group}, more...)
	if commands := u.Program.Commands(); len(commands) > 1 {
		words = append(words, "--run", cmp.Or(u.Run, commands[0]))
	}
	return host.Words(words...)
}

// said reduces an error to the program's own words, if there are any.
func (u *Units) said(err error) error {
	failed, is := errors.AsType[*host.CommandError](err)
	if !is || strings.TrimSpace(failed.Output.Stderr) == "" {
		return err
	}
	return errors.New(strings.TrimPrefix(strings.TrimSpace(failed.Output.Stderr), u.Program.Name+": "))
}

const (
	wouldChange = 3   // the exit code of a dry run that found a difference
	noProgram   = 127 // that of the shell for a program that does not exist
)

// compareUnits has the program compare its units with the host's. there is false if it is missing.
func (u *Units) compareUnits(ctx context.Context, h host.Host) (differs bool, diff string, there bool, err error) {
	out, err := h.Run(ctx, host.Command{Root: true, Script: u.command("--dry-run", "--json"), OK: []int{wouldChange, noProgram}, Look: true})
	if err != nil {
		return false, "", true, u.said(err)
	}
	if out.Code != wouldChange {
		return false, "", out.Code == 0, nil
	}
	var answer struct {
		Units []struct{ Path, Change, Diff string }
	}
	if err := json.Unmarshal([]byte(out.Stdout), &answer); err != nil {
		return false, "", true, fmt.Errorf("service install --dry-run: %w", err)
	}
	for _, unit := range answer.Units {
		if unit.Diff != "" {
			diff += fmt.Sprintf("--- %s\n+++ %[1]s\n%s\n", unit.Path, strings.TrimRight(unit.Diff, "\n"))
		}
	}
	return true, diff, true, nil
}

// foresee compares the units that this version makes with those of the host.
func (u *Units) foresee(ctx context.Context, now state) (differs bool, text string, err error) {
	cfg, err := u.Wanted(ctx)
	if err != nil {
		return false, "", err
	}
	files, err := systemd.Render(u.Program, systemd.Params{Run: u.Run, Config: u.Config, DataDir: cfg.DataDir, User: u.User, Group: u.Group, Listen: []string{cfg.Listen}})
	if err != nil {
		return false, "", err
	}
	for _, f := range files {
		if slices.Contains(unitNames(u.Program), f.Name) {
			text += diff.Unified(systemd.Dir+"/"+f.Name, now[f.Name].Content, string(f.Content))
		}
	}
	return text != "", text, nil
}

// state is the units' files as they are, by name.
type state map[string]host.File

func read(ctx context.Context, h host.Host, p systemd.Program) (state, error) {
	var paths []string
	for _, name := range unitNames(p) {
		paths = append(paths, systemd.Dir+"/"+name)
	}
	files, err := host.ReadFiles(ctx, h, paths...)
	s := state{}
	for path, f := range files {
		s[strings.TrimPrefix(path, systemd.Dir+"/")] = f
	}
	return s, err
}

func unitNames(p systemd.Program) []string { return []string{p.Service(), p.Socket(), p.Retry()} }

// restore restores the files. If there were none, it also stops and disables the daemon.
func (s state) restore(ctx context.Context, h host.Host, p systemd.Program) (string, error) {
	var failed []error
	if len(s) == 0 {
		_, err := h.Run(ctx, host.Command{Root: true, Script: Stopping(p) + "\nsystemctl disable --quiet " + p.Service() + " " + p.Socket() + " 2>/dev/null || :"})
		failed = append(failed, err)
	}
	var files []host.File
	for _, name := range unitNames(p) {
		f := s[name]
		f.Path = systemd.Dir + "/" + name
		files = append(files, f)
	}
	return "the units are as they were before", errors.Join(append(failed, host.PutUnits(ctx, h, files...))...)
}
