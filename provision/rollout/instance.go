// Package rollout brings one program onto one host, during one run: its release, settings
// and units, a start that proves itself, and the way back to what ran before. The toolkit
// decides on which hosts and in which order; package fleet runs the steps.
package rollout

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/bitmap"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/site"
)

// Run is what the instances of a run have in common.
type Run struct {
	Site *site.Site
	// Builds provides the programs for the hosts.
	Builds *Builds
	// At is the same for all hosts: releases are named after it. By is who runs it.
	At time.Time
	By string

	turn chan struct{} // taken by the host that makes bit-maps
}

// NewRun returns a Run.
func NewRun(s *site.Site, b *Builds, by string) *Run {
	return &Run{Site: s, Builds: b, At: time.Now().UTC().Truncate(time.Second), By: by, turn: make(chan struct{}, 1)}
}

// Instance is a program on a host. Its steps share what they find out, so an Instance
// belongs to one run.
type Instance struct {
	Program program.Program
	Host    inventory.Host
	// Health checks its daemon, Release brings its program onto the host, and BitMaps is the
	// program's command line for bit-maps.
	Health  *service.Health
	Release *release.Deployment
	BitMaps bitmap.CLI

	run      *Run
	ledger   *ledger
	revert   *service.Revert
	settings *settings.Files
	daemon   *service.Daemon
	units    *service.Units
	facts    func(context.Context, host.Host) (host.Facts, error)
	target   string // the release to roll back to
}

// Instance returns the instance of a program on a host. Call it once per run.
func (r *Run) Instance(h inventory.Host, p program.Program) *Instance {
	inv := r.Site.Inventory
	own, _ := inv.Own(p.Section)
	user, group := cmp.Or(own.Service.User, p.User()), cmp.Or(own.Service.Group, p.User())
	folder := release.At(p.Root(), p.Name)
	i := &Instance{Program: p, Host: h, run: r, ledger: &ledger{}, facts: once(host.FactsOf)}
	i.Release = &release.Deployment{Folder: folder, Binary: i.binary, At: r.At, By: r.By, Keep: inv.Release.Keep}
	i.settings = &settings.Files{
		Program: p, Group: group, Tokens: r.Site.Tokens[p.Name], Callers: r.Site.Callers(h, p),
		Values: func(ctx context.Context) (settings.Values, error) { return r.Site.Settings(ctx, h, p, r.Site.DryRun) },
	}
	i.Health = &service.Health{
		Program: p, Token: i.token, Timeout: inv.Fleet.HealthTimeout,
		Settings: func(ctx context.Context, h host.Host) (program.Settings, error) { return settings.OnHost(ctx, h, p) },
	}
	i.daemon = &service.Daemon{
		Health: i.Health, Pending: i.ledger.why,
		Read: []string{p.Config(), p.EnvFile()},
	}
	i.revert = &service.Revert{Program: p.Program, After: inv.Fleet.Bake}
	i.units = &service.Units{
		Program: p.Program, Run: p.Run, Binary: func() string { return folder.ProgramOf(i.Release.ID()) }, Config: p.Config(),
		User: user, Group: group, MemoryMax: own.Service.MemoryMax, OpenFiles: own.Service.OpenFiles,
		Ahead: func() bool {
			again, _ := i.ledger.why()
			return r.Site.DryRun && again != ""
		},
		Wanted: func(ctx context.Context) (program.Settings, error) { return i.wanted(ctx, true) },
	}
	i.BitMaps = bitmap.CLI{
		CLI:    program.CLI{Program: p.Program, Binary: folder.Program(), TokenFile: p.TokenFile(), User: user},
		Config: p.Config(), Shared: r.Site.Shares(h, p), Turn: r.turn,
	}
	return i
}

func (i *Instance) user() string  { return i.units.User }
func (i *Instance) group() string { return i.units.Group }

// wanted returns the settings that the host should have.
func (i *Instance) wanted(ctx context.Context, early bool) (program.Settings, error) {
	values, err := i.run.Site.Settings(ctx, i.Host, i.Program, early)
	if err != nil {
		return program.Settings{}, err
	}
	return values.Read(i.Program)
}

// BitMapNames returns the names of the bit-maps that the host should have.
func (i *Instance) BitMapNames(ctx context.Context, _ host.Host) ([]string, error) {
	wanted, err := i.wanted(ctx, i.run.Site.DryRun)
	return wanted.BitMaps, err
}

// Archived reports whether the instance has an archive.
func (i *Instance) Archived() bool { return i.run.Site.Archived(i.Host, i.Program) }

// token returns the host's own token, if its daemon requires one.
func (i *Instance) token(ctx context.Context, h host.Host) (string, error) {
	token, err := environment.OperatorToken(ctx, h, i.Program.TokenFile())
	if token != "" {
		i.run.Site.Masker.Add(token)
	}
	return token, err
}

// running reports whether the daemon is up.
func (i *Instance) running(ctx context.Context, h host.Host) (bool, error) {
	s, err := service.LastStatus(ctx, h, i.Program.Program)
	return s.Running(), err
}

// once returns a function that queries a host's facts once per run.
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
