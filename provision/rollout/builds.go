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

// Builds are the programs of a run, either prebuilt or built from the sources here. Each is
// obtained once, however many hosts need it. The fields must be set before it is used; it is
// then safe for concurrent use.
type Builds struct {
	// Given is the prebuilt program from the command line, in which {program} stands for a
	// program's name; "": none.
	Given string
	// Inventory has the prebuilt programs for one program or one host.
	Inventory *inventory.Inventory
	// Build builds a program for an architecture; nil: there are no sources.
	Build func(ctx context.Context, p program.Program, arch string) (release.Built, error)

	mu   sync.Mutex
	have map[string]*release.Binaries // by the path that was given and the program's name
}

// ready returns the prebuilt program for a host: that of the command line, the host's, or
// the one for all hosts; "": the program must be built.
func (b *Builds) ready(h inventory.Host, p program.Program) string {
	own, _ := b.Inventory.Own(p.Section)
	return cmp.Or(b.GivenFor(p), h.Own(p.Section).Binary, own.Binary)
}

// named is the placeholder for a program's name in what is given.
const named = "{program}"

// GivenFor returns the prebuilt program from the command line for p; "": none.
func (b *Builds) GivenFor(p program.Program) string {
	return strings.ReplaceAll(b.Given, named, p.Name)
}

// CheckGiven refuses one prebuilt program for several programs.
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

// Check refuses prebuilt files that are not programs, before any host is contacted.
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

// source returns where a program for a host comes from.
func (b *Builds) source(given string, p program.Program) release.Source {
	if given != "" {
		return release.Ready(given)
	}
	return func(ctx context.Context, arch string) (release.Built, error) {
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

// binary returns the program for the instance's host.
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
