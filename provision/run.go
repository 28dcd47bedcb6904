package provision

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/site"
	"github.com/cr-clawer/urifilter/provision/step"
)

// run is one running target.
type run struct {
	*Toolkit
	site      *site.Site
	rollout   *rollout.Run
	instances map[string]*rollout.Instance // by host and program
}

func (t *Toolkit) newRun(offline bool) (*run, error) {
	s, err := site.New(t.siteOptions(offline))
	if err != nil {
		return nil, fleet.Usage(err)
	}
	builds := &rollout.Builds{Given: t.o.Binary, Inventory: t.inventory, Build: t.o.Build}
	return &run{Toolkit: t, site: s, rollout: rollout.NewRun(s, builds, whoami()), instances: map[string]*rollout.Instance{}}, nil
}

func (t *Toolkit) siteOptions(offline bool) site.Options {
	return site.Options{
		Inventory: t.inventory, Programs: t.o.Programs, Tokens: t.tokens, DryRun: t.o.DryRun, Offline: offline, Dir: t.o.own(), Renew: t.renew,
		Getenv: t.o.Getenv, Masker: t.masker, Visit: t.visit, Resolve: t.dialer.Address,
	}
}

// execute makes a run with the phases from plan, and executes it.
func (t *Toolkit) execute(ctx context.Context, target string, plan func(*run) ([]fleet.Phase, error)) error {
	r, err := t.newRun(false)
	if err != nil {
		return err
	}
	phases, err := plan(r)
	if err != nil {
		return errors.Join(fleet.Usage(err), r.site.Close())
	}
	_, err = fleet.Run(ctx, phases, t.fleet(target))
	if failed := r.site.Close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// fleet returns the options common to all runs.
func (t *Toolkit) fleet(target string) fleet.Options {
	f := t.inventory.Fleet
	parallel := f.Parallel
	if t.o.Parallel > 0 {
		parallel = t.o.Parallel
	}
	return fleet.Options{
		Target: target, Who: whoami(), Plan: t.o.DryRun, ExitCode: t.o.ExitCode,
		Canary: f.Canary, Batch: f.Batch, Parallel: parallel, KeepGoing: t.o.KeepGoing,
		Runs: filepath.Join(t.o.own(), "runs"), Resume: t.o.Resume,
		Again: t.call(target), GoOn: t.resume(target), Inputs: t.fingerprint(),
		Sink: t.display, Masker: t.masker,
	}
}

// instance returns a program on a host, the same value for all phases.
func (r *run) instance(h inventory.Host, p program.Program) *rollout.Instance {
	p = r.site.On(h, p)
	key := h.Name + "\n" + p.Name
	if r.instances[key] == nil {
		r.instances[key] = r.rollout.Instance(h, p)
	}
	return r.instances[key]
}

// checkPrograms checks the ready programs.
func (r *run) checkPrograms(all []program.Program) error {
	faults := []error{r.rollout.Builds.CheckGiven(all)}
	for _, p := range all {
		faults = append(faults, r.rollout.Builds.Check(r.running(p), p))
	}
	return errors.Join(faults...)
}

// phase returns a phase of steps for servers on some hosts.
func (r *run) phase(name string, hosts []inventory.Host, steps func(inventory.Host) ([]step.Step, error)) fleet.Phase {
	p := fleet.Phase{Name: name}
	for _, h := range hosts {
		p.Jobs = append(p.Jobs, fleet.Job{
			Host: h.Name, Connect: r.connect(h), Preflight: []step.Step{ready()},
			Steps: func(context.Context, host.Host) ([]step.Step, error) {
				all, err := steps(h)
				return earlyWishes(all), err
			},
		})
	}
	return p
}

// earlyWishes marks the wishes between proofs as early. A proof waits for its server, and has its turn for that.
func earlyWishes(steps []step.Step) (all []step.Step) {
	var wishes []step.Step
	for _, s := range steps {
		if _, proves := s.(step.Proof); proves {
			all, wishes = append(append(all, step.Early(wishes...)...), s), nil
			continue
		}
		wishes = append(wishes, s)
	}
	return append(all, step.Early(wishes...)...)
}

// ready is the preflight of every host: the login user can become root, and systemd runs.
func ready() step.Proof {
	return step.NewProof("preflight: root and systemd", func(ctx context.Context, h host.Host) error {
		if _, err := h.Run(ctx, host.Command{Root: true, Script: ":", Look: true}); err != nil {
			return err
		}
		facts, err := host.FactsOf(ctx, h)
		if err != nil {
			return err
		}
		if facts.Systemd == 0 {
			return fmt.Errorf("systemd does not run on %s: the toolkit needs it", facts.Name)
		}
		return nil
	})
}

// work returns the steps of a program on one host.
type work func(context.Context, host.Host, *rollout.Instance) ([]step.Step, error)

// always is work that does not depend on the state of the host.
func always(steps func(*rollout.Instance) ([]step.Step, error)) work {
	return func(_ context.Context, _ host.Host, i *rollout.Instance) ([]step.Step, error) { return steps(i) }
}

// phaseOf returns the phase of a program, on some of its hosts; it has the name of the role.
func (r *run) phaseOf(p program.Program, hosts []inventory.Host, steps work, more func(*rollout.Instance, *fleet.Job)) fleet.Phase {
	phase := fleet.Phase{Name: p.Roles[0]}
	for _, h := range hosts {
		i := r.instance(h, p)
		j := fleet.Job{
			Host: h.Name, Connect: r.connect(h), Preflight: []step.Step{ready()},
			Steps: func(ctx context.Context, h host.Host) ([]step.Step, error) { return steps(ctx, h, i) },
		}
		if more != nil {
			more(i, &j)
		}
		phase.Jobs = append(phase.Jobs, j)
	}
	return phase
}

// onServers runs steps on the host with a server's role.
func (t *Toolkit) onServers(ctx context.Context, target, role string, steps func(*site.Site, inventory.Host) ([]step.Step, error)) error {
	hosts, err := t.nonEmpty(t.with(role), role)
	if err != nil {
		return err
	}
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		if err := r.site.OpenBundles(); err != nil {
			return nil, err
		}
		return []fleet.Phase{r.phase(role, hosts, func(h inventory.Host) ([]step.Step, error) { return steps(r.site, h) })}, nil
	})
}

// onDaemons runs steps on all hosts of the program at once.
func (t *Toolkit) onDaemons(ctx context.Context, target string, steps func(*rollout.Instance) ([]step.Step, error)) error {
	if _, err := t.daemonHosts(); err != nil {
		return err
	}
	return t.onDaemonsOf(ctx, target, []program.Program{t.program}, steps)
}

// onAllDaemons is onDaemons for each program of the hosts.
func (t *Toolkit) onAllDaemons(ctx context.Context, target string, steps func(*rollout.Instance) ([]step.Step, error)) error {
	programs, err := t.programs()
	if err != nil {
		return err
	}
	return t.onDaemonsOf(ctx, target, programs, steps)
}

func (t *Toolkit) onDaemonsOf(ctx context.Context, target string, programs []program.Program, steps func(*rollout.Instance) ([]step.Step, error)) error {
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		if err := r.checkPrograms(programs); err != nil {
			return nil, err
		}
		var phases []fleet.Phase
		for _, p := range programs {
			phases = append(phases, r.phaseOf(p, t.running(p), always(steps), nil))
		}
		return phases, nil
	})
}

// daemons runs steps that end with running daemons on hosts of the program, and watches the
// daemons; if rolling, the canary first.
func (t *Toolkit) daemons(ctx context.Context, target string, rolling bool, steps func(*rollout.Instance) []step.Step, more func(*rollout.Instance, *fleet.Job)) error {
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		p := r.phaseOf(t.program, hosts, always(func(i *rollout.Instance) ([]step.Step, error) { return steps(i), nil }), func(i *rollout.Instance, j *fleet.Job) {
			j.Late = append(i.Bake(), i.Release.Folder.Healthy())
			if more != nil {
				more(i, j)
			}
		})
		p.Rolling = rolling
		return []fleet.Phase{p}, nil
	})
}
