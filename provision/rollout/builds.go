package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Builds are the programs of a run: ready ones, or built from the sources here, each once
// however many hosts want it. The fields are set before it is used; it is then safe for
// concurrent use.
type Builds struct {
	// Given is the ready program of the command line, in which {program} stands for the name
	// of one; "": none.
	Given string
	// Inventory has those for one program, or host.
	Inventory *inventory.Inventory
	// Build makes a program for an architecture; nil: there are no sources.
	Build func(ctx context.Context, p program.Program, arch string) (path string, err error)

	mu   sync.Mutex
	have map[string]*release.Binaries // by what was given for them, or the program's name
}

// ready is the ready program for a host: that of the command line, the host's, or the one
// for all; "": it is built.
func (b *Builds) ready(h inventory.Host, p program.Program) string {
	own, _ := b.Inventory.Own(p.Section)
	return cmp.Or(b.GivenFor(p), h.Own(p.Section).Binary, own.Binary)
}

// named stands for the name of a program in what is given.
const named = "{program}"

// GivenFor is the ready program of the command line for one; "": none.
func (b *Builds) GivenFor(p program.Program) string {
	return strings.ReplaceAll(b.Given, named, p.Name)
}

// CheckGiven refuses one ready program for several.
func (b *Builds) CheckGiven(all []program.Program) error {
	if len(all) < 2 || b.Given == "" || strings.Contains(b.Given, named) {
		return nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return fmt.Errorf("-binary=%s: that is one program, and the hosts run %s\nhint: -binary=%s-linux-{arch}, or -hosts=role:%s", b.Given, strings.Join(names, " and "), named, all[0].Roles[0])
}

// Check refuses ready programs that are none, before a host is asked.
func (b *Builds) Check(hosts []inventory.Host, p program.Program) error {
	var faults []error
	seen := map[string]bool{"": true}
	for _, h := range hosts {
		if path := b.ready(h, p); !seen[path] {
			seen[path] = true
			faults = append(faults, release.Check(path))
		}
	}
	return errors.Join(faults...)
}

// source is where a program for a host comes from.
func (b *Builds) source(given string, p program.Program) release.Source {
	if given != "" {
		return release.Ready(given)
	}
	return func(ctx context.Context, arch string) (string, error) {
		step.Say(ctx, "building the program for linux/%s from the sources here: the first time takes some minutes", arch)
		return b.Build(ctx, p, arch)
	}
}

func (b *Builds) binaries(given string, p program.Program) *release.Binaries {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := given + "\n" + p.Name
	if b.have == nil {
		b.have = map[string]*release.Binaries{}
	}
	if b.have[key] == nil {
		b.have[key] = release.NewBinaries(b.source(given, p))
	}
	return b.have[key]
}

// binary is the program for the instance's host.
func (i *Instance) binary(ctx context.Context, h host.Host) (release.Binary, error) {
	facts, err := i.facts(ctx, h)
	if err != nil {
		return release.Binary{}, err
	}
	if facts.Arch != "amd64" && facts.Arch != "arm64" {
		return release.Binary{}, fmt.Errorf("the host's processor is %s: the daemon is for amd64 and arm64", facts.Arch)
	}
	builds := i.run.Builds
	given := builds.ready(i.Host, i.Program)
	if given == "" && builds.Build == nil {
		return release.Binary{}, fleet.Usage(errors.New("no program is given\nhint: -binary=PATH"))
	}
	b, err := builds.binaries(given, i.Program).For(ctx, facts.Arch)
	if given != "" {
		err = fleet.Usage(err) // one for another processor, for instance
	}
	return b, err
}
