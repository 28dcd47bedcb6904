package provision

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/uridownloader"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/release"
)

// Options are the operator's choices on the command line.
type Options struct {
	// Hosts selects hosts of the inventory: names, patterns, role:filter. "": all.
	Hosts string
	// Inventory is the path of the inventory; "": as package inventory finds it.
	Inventory string
	// DryRun examines all hosts and changes none; ExitCode makes it end with fleet.CodeChanges when
	// something would change.
	DryRun, ExitCode bool
	// JSON writes events as lines to Stdout; Verbose shows the output of commands.
	JSON, Verbose bool
	// Yes answers all questions with yes.
	Yes bool
	// Resume continues with the hosts that the last run of the target did not complete.
	Resume bool
	// KeepGoing continues with other hosts after one has failed.
	KeepGoing bool
	// Parallel is how many hosts are worked on at once; 0: as the inventory says.
	Parallel int
	// Binary is a ready program; in it {arch} stands for the architecture and {program} for the
	// program's name. "": as the inventory says, or built.
	Binary string

	// Dir is the folder of the repository: inventory, runs. "": the working directory.
	Dir string
	// Programs are those that hosts may run; nil: all known programs. The targets of a daemon (Get,
	// Start, Status ...) are about the one named Program; "": the first.
	Programs []program.Program
	Program  string
	// Build makes a program for an architecture, from sources that Revision names.
	Build    func(ctx context.Context, p program.Program, arch string) (release.Built, error)
	Revision string
	// Stdin, Stdout and Stderr; nil: those of the process.
	Stdin, Stdout, Stderr *os.File
	// Getenv; nil: os.Getenv.
	Getenv func(string) string
}

func (o *Options) complete() {
	o.Stdin, o.Stdout, o.Stderr = cmp.Or(o.Stdin, os.Stdin), cmp.Or(o.Stdout, os.Stdout), cmp.Or(o.Stderr, os.Stderr)
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	o.Dir = cmp.Or(o.Dir, ".")
	if o.Programs == nil {
		o.Programs = []program.Program{urifilter.Program(), uridownloader.Program()}
	}
	if o.Program == "" {
		o.Program = o.Programs[0].Name
	}
}

// chosen returns the program named by Program.
func (o *Options) chosen() (program.Program, error) {
	i := slices.IndexFunc(o.Programs, func(p program.Program) bool { return p.Name == o.Program })
	if i < 0 {
		var names []string
		for _, p := range o.Programs {
			names = append(names, p.Name)
		}
		return program.Program{}, fmt.Errorf("program %q: want %s", o.Program, strings.Join(names, " or "))
	}
	return o.Programs[i], nil
}

// source returns the place of the inventory, and the programs of its hosts.
func (o *Options) source() inventory.Source {
	return inventory.Source{Path: o.Inventory, Dir: o.Dir, Roles: program.Roles(o.Programs), Getenv: o.Getenv}
}

// own returns the folder of the toolkit's own files on this machine.
func (o *Options) own() string { return filepath.Join(o.Dir, ".urifilter") }
