package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/bitmap"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// machine is one host during a run: what its steps share.
type machine struct {
	run      *run
	host     inventory.Host
	system   *apt.System
	ledger   *ledger
	release  *release.Deployment
	settings *settings.Files
	health   *service.Health
	daemon   *service.Daemon
	units    *service.Units
	cli      bitmap.CLI
	facts    func(context.Context, host.Host) (host.Facts, error)
	target   string // the release to roll back to
}

// machine is that of a host, the same for all phases.
func (r *run) machine(h inventory.Host) *machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[h.Name]; m != nil {
		return m
	}
	inv := r.inventory
	folder := release.At(release.Root)
	m := &machine{run: r, host: h, ledger: &ledger{}, facts: once(host.FactsOf)}
	m.release = &release.Deployment{Folder: folder, Binary: m.binary, At: r.at, By: whoami(), Keep: inv.Release.Keep}
	m.settings = &settings.Files{
		Values: func(ctx context.Context) (settings.Values, error) { return r.values(ctx, h, r.o.DryRun) },
		Tokens: r.tokens, Group: inv.Service.Group, Dir: settings.Dir,
	}
	m.health = &service.Health{Config: onHost, Token: m.token, Program: folder.Program(), Timeout: inv.Fleet.HealthTimeout}
	m.daemon = &service.Daemon{
		Health: m.health, Program: folder.Program(), Pending: m.ledger.why,
		Read: []string{settings.Path, settings.Dir + "/urifilter.env", redis.PasswordPath},
	}
	m.units = &service.Units{
		Program: func() string { return folder.ProgramOf(m.release.ID()) }, Config: settings.Path,
		User: inv.Service.User, Group: inv.Service.Group, MemoryMax: inv.Service.MemoryMax, OpenFiles: inv.Service.OpenFiles,
		Ahead: func() bool {
			again, _ := m.ledger.why()
			return r.o.DryRun && again != ""
		},
		Wanted: func(ctx context.Context) (configs.Config, error) {
			values, err := r.values(ctx, h, true)
			if err != nil {
				return configs.Config{}, err
			}
			return values.Config()
		},
	}
	m.cli = bitmap.CLI{Program: folder.Program(), Config: settings.Path, TokenFile: environment.TokenPath(""), User: inv.Service.User, Shared: m.shares(), Turn: r.turn}
	r.machines[h.Name] = m
	return m
}

// packages is how they get on the host.
func (m *machine) packages() (*apt.System, error) {
	if m.system != nil {
		return m.system, nil
	}
	var err error
	m.system, err = m.run.system(m.run.inventory.Packages.Bundle)
	return m.system, err
}

// once asks a host once a run.
func once(ask func(context.Context, host.Host) (host.Facts, error)) func(context.Context, host.Host) (host.Facts, error) {
	var mu sync.Mutex
	var have *host.Facts
	return func(ctx context.Context, h host.Host) (host.Facts, error) {
		mu.Lock()
		defer mu.Unlock()
		if have != nil {
			return *have, nil
		}
		facts, err := ask(ctx, h)
		if err == nil {
			have = &facts
		}
		return facts, err
	}
}

// binary is the program for a host: given on the command line, for the host, for all, or
// built.
func (m *machine) binary(ctx context.Context, h host.Host) (release.Binary, error) {
	facts, err := m.facts(ctx, h)
	if err != nil {
		return release.Binary{}, err
	}
	if facts.Arch != "amd64" && facts.Arch != "arm64" {
		return release.Binary{}, fmt.Errorf("the host's processor is %s: the daemon is for amd64 and arm64", facts.Arch)
	}
	given, source := m.run.program(m.host), m.run.building
	if given != "" {
		source = release.Ready(given)
	}
	if given == "" && m.run.o.Build == nil {
		return release.Binary{}, fleet.Usage(errors.New("no program is given\nhint: -binary=PATH"))
	}
	m.run.mu.Lock()
	binaries := m.run.binaries[given]
	if binaries == nil {
		binaries = release.NewBinaries(source)
		m.run.binaries[given] = binaries
	}
	m.run.mu.Unlock()
	b, err := binaries.For(ctx, facts.Arch)
	if given != "" {
		err = fleet.Usage(err) // one for another processor, for instance
	}
	return b, err
}

// program is the ready program for a host: that of the command line, the host's, or the one
// for all; "": it is built.
func (r *run) program(h inventory.Host) string {
	return cmp.Or(r.o.Binary, h.Binary, r.inventory.Release.Binary)
}

// building is the source of programs that are made from the sources here.
func (r *run) building(ctx context.Context, arch string) (string, error) {
	step.Say(ctx, "building the program for linux/%s from the sources here: the first time takes some minutes", arch)
	return r.o.Build(ctx, arch)
}

// checkPrograms refuses ready programs that are none, before a host is asked.
func (r *run) checkPrograms() error {
	var faults []error
	seen := map[string]bool{"": true}
	for _, h := range r.with(inventory.RoleFilter) {
		if path := r.program(h); !seen[path] {
			seen[path] = true
			faults = append(faults, release.Check(path))
		}
	}
	return errors.Join(faults...)
}

// onHost is what a host's daemon is told now.
func onHost(ctx context.Context, h host.Host) (configs.Config, error) {
	c, there, err := settings.OnHost(ctx, h)
	if err == nil && !there {
		return configs.Default(), nil
	}
	return c, err
}

// token is the host's own, where its daemon asks for one.
func (m *machine) token(ctx context.Context, h host.Host) (string, error) {
	token, err := environment.OperatorToken(ctx, h, settings.Dir)
	if token != "" {
		m.run.masker.Add(token)
	}
	return token, err
}

// running tells whether the daemon of a host is up.
func running(ctx context.Context, h host.Host) (bool, error) {
	s, err := service.StatusOf(ctx, h)
	return s.Running(), err
}

// filterNames are the filters of the settings that a host shall have.
func (m *machine) filterNames(ctx context.Context, _ host.Host) ([]string, error) {
	values, err := m.run.values(ctx, m.host, m.run.o.DryRun)
	if err != nil {
		return nil, err
	}
	c, err := values.Config()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range c.Specs() {
		names = append(names, s.Name)
	}
	return names, nil
}
