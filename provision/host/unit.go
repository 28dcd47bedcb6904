package host

import (
	"context"
	"fmt"
	"strings"
)

// Unit is what systemd says of a unit.
type Unit struct {
	Loaded  bool // there is one
	Active  bool
	Enabled bool // for good
	Runtime bool // enabled until the next boot
	Stale   bool // its files are newer than what systemd has read of them
}

// LookAtUnit asks systemd for a unit, which need not be there.
func LookAtUnit(ctx context.Context, h Host, name string) (u Unit, err error) {
	out, err := h.Run(ctx, Command{Script: "systemctl show --property=LoadState,ActiveState,UnitFileState,NeedDaemonReload " + Quote(name)})
	if err != nil {
		return u, fmt.Errorf("%s: %w", name, err)
	}
	for line := range strings.Lines(out.Stdout) {
		switch strings.TrimSpace(line) {
		case "LoadState=loaded":
			u.Loaded = true
		case "ActiveState=active":
			u.Active = true
		case "UnitFileState=enabled":
			u.Enabled = true
		case "UnitFileState=enabled-runtime":
			u.Runtime = true
		case "NeedDaemonReload=yes":
			u.Stale = true
		}
	}
	return u, nil
}
