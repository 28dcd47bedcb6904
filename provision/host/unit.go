package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// Unit is what systemd says of a unit.
type Unit struct {
	Loaded  bool // there is one
	Active  bool
	Enabled bool // for good
	Runtime bool // enabled until the next boot
}

// LookAtUnit asks systemd for a unit, which need not exist.
func LookAtUnit(ctx context.Context, h Host, name string) (u Unit, err error) {
	out, err := h.Run(ctx, Command{Script: "systemctl show --property=LoadState,ActiveState,UnitFileState " + Quote(name), Watch: true})
	if err != nil {
		return u, fmt.Errorf("%s: %w", name, err)
	}
	m := Pairs(out.Stdout, "=")
	return Unit{
		Loaded: m["LoadState"] == "loaded", Active: m["ActiveState"] == "active",
		Enabled: m["UnitFileState"] == "enabled", Runtime: m["UnitFileState"] == "enabled-runtime",
	}, nil
}

// PutUnits writes files of units, such as drop-ins, with their folders; it removes those whose content is "". Then
// systemd reads them.
func PutUnits(ctx context.Context, h Host, files ...File) error {
	var failed []error
	for _, f := range files {
		dir := path.Dir(f.Path)
		script := "mkdir -p " + Quote(dir)
		if f.Content == "" {
			script = "rm -f " + Quote(f.Path)
			if strings.HasSuffix(dir, ".d") {
				script += " && { rmdir " + Quote(dir) + " 2>/dev/null || :; }"
			}
		}
		_, err := h.Run(ctx, Command{Script: script, Root: true})
		if err == nil && f.Content != "" {
			err = WriteFile(ctx, h, f)
		}
		failed = append(failed, err)
	}
	_, err := h.Run(ctx, Command{Script: "systemctl daemon-reload", Root: true})
	return errors.Join(append(failed, err)...)
}

// Reread returns the beginning of a command that needs units as they are on the disk. A run that was broken off may have
// changed files that systemd has not read.
func Reread(units ...string) string {
	return "{ ! systemctl show -p NeedDaemonReload " + Words(units...) + " | grep -q yes || systemctl daemon-reload; } && "
}

// Systemctl runs systemctl verb unit, with the unit as it is on the disk. An error has the end of the unit's log: of
// the journal, and of files, which are shell patterns.
func Systemctl(ctx context.Context, h Host, verb, unit string, files ...string) error {
	// Clear the start limit: this start was asked for.
	script := fmt.Sprintf("systemctl reset-failed %s 2>/dev/null; %ssystemctl %s %[1]s", Quote(unit), Reread(unit), verb)
	if _, err := h.Run(ctx, Command{Script: script, Root: true}); err != nil {
		return fmt.Errorf("%s %s: %w%s", verb, strings.TrimSuffix(unit, ".service"), err, UnitLog(ctx, h, unit, files...))
	}
	return nil
}

// UnitLog returns the end of a unit's log, to append to an error; "" if there is nothing.
func UnitLog(ctx context.Context, h Host, unit string, files ...string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	script := "journalctl --no-pager -q -n 10 -o cat -u " + Quote(unit) + " 2>/dev/null; "
	for _, pattern := range files {
		script += "tail -n 10 " + pattern + " 2>/dev/null; "
	}
	out, err := h.Run(ctx, Command{Script: script + ":", Root: true, Watch: true})
	if err != nil || strings.TrimSpace(out.Stdout) == "" {
		return ""
	}
	return "\nits log ends:\n" + strings.TrimRight(out.Stdout, "\n")
}
