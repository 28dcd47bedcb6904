package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Deploy makes the whole fleet as the inventory has it, in order: preflight of all hosts;
// Redis and the archive on their hosts; then, rolling over the filter hosts: environment,
// release, settings, service, bit-maps, start, health check, schedule. A host whose
// daemon does not get healthy is brought back to what it ran before. At the end Redis's
// plain port is closed, if it is to be called by TLS and every filter host does.
func (t *Toolkit) Deploy(ctx context.Context) error { return t.deploy(ctx, "deploy") }

func (t *Toolkit) deploy(ctx context.Context, target string) error {
	return t.do(ctx, target, func(r *run) ([]fleet.Phase, error) {
		if err := errors.Join(r.openBundles(), r.checkPrograms()); err != nil {
			return nil, err
		}
		var phases []fleet.Phase
		if with := t.with(inventory.RoleRedis); len(with) > 0 {
			phases = append(phases, r.phase("redis", with, r.redisSteps))
		}
		if with := t.with(inventory.RoleMongoDB); len(with) > 0 {
			p := r.phase("mongodb", with, r.mongodbSteps)
			p.Jobs[0].Preflight = append(p.Jobs[0].Preflight, r.mongo.Preflight()...)
			phases = append(phases, p)
		}
		for i := range phases {
			phases[i].Required = true
		}
		if with := t.with(inventory.RoleFilter); len(with) > 0 {
			p := r.phase("filter", with, (*machine).deploy)
			p.Rolling = true
			for i, h := range with {
				m := r.machine(h)
				p.Jobs[i].Preflight = append(p.Jobs[i].Preflight, m.preflight()...)
				p.Jobs[i].Late = append(m.bake(), m.release.Healthy(), m.release.Prune())
			}
			phases = append(phases, p)
		}
		return append(phases, r.closePlain()...), nil
	})
}

// do makes a run and executes it.
func (t *Toolkit) do(ctx context.Context, target string, plan func(*run) ([]fleet.Phase, error)) error {
	r, err := t.newRun()
	if err != nil {
		return fleet.Usage(err)
	}
	phases, err := plan(r)
	if err != nil {
		return errors.Join(fleet.Usage(err), r.close())
	}
	_, err = fleet.Run(ctx, phases, t.fleet(target))
	if failed := r.close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// phase is the same steps for some hosts.
func (r *run) phase(name string, hosts []inventory.Host, steps func(*machine) ([]step.Step, error)) fleet.Phase {
	p := fleet.Phase{Name: name}
	for _, h := range hosts {
		m := r.machine(h)
		p.Jobs = append(p.Jobs, fleet.Job{
			Host: h.Name, Connect: r.connect(h), Preflight: []step.Step{m.ready()},
			Steps: func(context.Context, host.Host) ([]step.Step, error) { return steps(m) },
		})
	}
	return p
}

// ready is the preflight of every host: who logs in can become root, and systemd runs.
func (m *machine) ready() step.Proof {
	return step.NewProof("preflight: root and systemd", func(ctx context.Context, h host.Host) error {
		if _, err := h.Run(ctx, host.Command{Root: true, Script: ":"}); err != nil {
			return err
		}
		facts, err := m.facts(ctx, h)
		if err != nil {
			return err
		}
		if facts.Systemd == 0 {
			return fmt.Errorf("systemd does not run on %s: the toolkit needs it", facts.Name)
		}
		return nil
	})
}

// leastDisk is what a release and its upload need where releases are, in KiB.
const leastDisk = 100 << 10

// preflight is that of a filter host. The program is last: building it takes the longest.
func (m *machine) preflight() []step.Step {
	name := "preflight: build the program"
	if m.run.program(m.host) != "" {
		name = "preflight: program"
	}
	return []step.Step{
		step.NewProof("preflight: disk", func(ctx context.Context, h host.Host) error {
			script := fmt.Sprintf(`for d in %s/releases %[1]s /opt /; do [ ! -d "$d" ] || break; done; free=$(df -Pk "$d" | awk 'NR==2{print $4}'); [ "$free" -ge %[2]d ] || { echo "$((free/1024)) MB are free on $(df -P "$d" | awk 'NR==2{print $6}'): want %[3]d MB for a release" >&2; exit 1; }`, release.Root, leastDisk, leastDisk>>10)
			_, err := h.Run(ctx, host.Command{Script: script})
			var failed *host.CommandError
			if errors.As(err, &failed) {
				return fmt.Errorf("%s\nhint: make room there", strings.TrimSpace(failed.Output.Stderr))
			}
			return err
		}),
		m.settingsCheck(),
		step.NewProof(name, func(ctx context.Context, h host.Host) error {
			_, err := m.binary(ctx, h)
			return err
		}),
	}
}

// deploy are the steps of a filter host.
func (m *machine) deploy() ([]step.Step, error) {
	timetable, err := m.timetable(m.run.inventory.Schedule.Kind)
	if err != nil {
		return nil, err
	}
	steps := m.environment()
	steps = append(steps, m.release.Upload())
	steps = append(steps, m.settingsSteps()...)
	steps = append(steps, m.accepted(), m.crashed(), m.ledger.watch(m.release.Current()))
	steps = append(steps, m.serviceSteps()...)
	if m.archived() {
		// A daemon that runs is asked for it once it knows the settings of today.
		steps = append(steps, m.cli.Init(m.filterNames, running))
	}
	steps = append(steps, m.start()...)
	if m.archived() {
		again := m.cli.Init(m.filterNames, m.planned)
		steps = append(steps, step.NewWish(again.Title()+", running", again.Look))
	}
	return append(steps, timetable...), nil
}

// planned tells, in a plan, that the bit-maps are made by the step before.
func (m *machine) planned(ctx context.Context, h host.Host) (bool, error) {
	if !m.run.o.DryRun {
		return false, nil
	}
	up, err := running(ctx, h)
	return !up, err
}

func (m *machine) environment() []step.Step {
	service := m.run.inventory.Service
	return environment.Steps(environment.Options{User: service.User, Group: service.Group})
}

// settingsSteps are those for the files that the daemon reads.
func (m *machine) settingsSteps() []step.Step {
	var steps []step.Step
	if m.shares() {
		steps = append(steps, m.ledger.watch(redis.PasswordFile(m.run.inventory.Service.Group, m.run.password)))
	}
	if m.certified() {
		steps = append(steps, m.ledger.record(m.callingCard()))
	}
	// What the settings name is there before them. The daemon rereads tokens without a
	// restart, so they are not a reason for one.
	return append(steps, m.ledger.record(m.settings.TokensFile()), m.ledger.watch(m.settings.Settings()))
}

// accepted has the release check the settings before it is made current.
func (m *machine) accepted() step.Proof {
	return m.settings.Accepted(func() string { return m.release.Folder.ProgramOf(m.release.ID()) }, m.run.inventory.Service.User)
}

func (m *machine) serviceSteps() []step.Step {
	var steps []step.Step
	for _, s := range m.units.Steps() {
		steps = append(steps, m.ledger.watch(s))
	}
	return steps
}

// start are the steps after which the daemon runs what it should and has proved it; if it
// does not, all that was changed for it is taken back and the daemon of before runs.
func (m *machine) start() []step.Step {
	return []step.Step{starting{m.daemon.Running(), m}, m.healthy()}
}

// starting is the step after which the daemon runs. Its way back is that of all that was
// changed for it.
type starting struct {
	step.Wish
	m *machine
}

func (s starting) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	change, err := s.Wish.Look(ctx, h)
	if err != nil || change == nil {
		return nil, err
	}
	return change.Applied(func(ctx context.Context) error {
		err := change.Apply(ctx)
		if err == nil {
			s.m.ledger.used()
		}
		return err
	}), nil
}

func (s starting) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	return s.m.back(ctx, h, cause)
}

// healthy is the health check, after which nothing is taken back for the fault of a step
// that has nothing to do with it.
func (m *machine) healthy() step.Proof {
	health := m.health.Step()
	return step.NewProof(health.Title(), func(ctx context.Context, h host.Host) error {
		err := health.Prove(ctx, h)
		if err == nil {
			m.ledger.keep(true)
		}
		return err
	})
}

// bake is the late step that watches a daemon which was healthy: one that crashes after all
// is a reason to take everything back.
func (m *machine) bake() []step.Step {
	long := m.run.inventory.Fleet.Bake
	if long == 0 || m.run.o.DryRun {
		return nil
	}
	bake := m.health.Bake(long)
	return []step.Step{step.NewProof(bake.Title(), func(ctx context.Context, h host.Host) error {
		err := bake.Prove(ctx, h)
		if err != nil && ctx.Err() == nil && !errors.As(err, new(*host.ConnectionError)) {
			m.ledger.keep(false)
		}
		return err
	})}
}

// crashed is the step before another release is made current.
func (m *machine) crashed() step.Wish {
	return m.release.Folder.Unhealthy(func(ctx context.Context, h host.Host) (bool, error) {
		s, err := service.StatusOf(ctx, h)
		return s.Crashed(), err
	})
}

// back is the way back to the daemon of before.
func (m *machine) back(ctx context.Context, h host.Host, cause error) (string, error) {
	if m.ledger.kept {
		return "", nil // it was healthy: a later step has failed, which is none of its faults
	}
	said, err := m.ledger.back(ctx, h, cause, "")
	if err != nil {
		return said, err
	}
	list, err := m.release.Folder.List(ctx, h)
	if err != nil {
		return said, err
	}
	if list.Current == "" {
		_, err := h.Run(ctx, host.Command{Root: true, Script: service.StopScript})
		return join(said, "there was no daemon before: it is stopped"), err
	}
	restart := m.daemon.Restart()
	change, err := restart.Look(ctx, h)
	if err == nil {
		err = change.Apply(ctx)
	}
	if err == nil && errors.Is(cause, context.Canceled) {
		// Whoever has interrupted the run does not wait for a check.
		return join(said, "rolled back: release "+list.Current+" is up again; go tool mage urifilter:status shows its state"), nil
	}
	if err == nil {
		err = m.health.Prove(ctx, h)
	}
	if err != nil {
		return said, fmt.Errorf("the previous daemon does not become healthy either: %w", err)
	}
	return join(said, "rolled back: release "+list.Current+" runs again and is healthy"), nil
}

func join(said, more string) string {
	if said == "" {
		return more
	}
	return said + "; " + more
}

func (m *machine) schedule(kind string) (*schedule.Schedule, error) {
	s := m.run.inventory.Schedule
	if !m.archived() {
		kind = schedule.None // there is nothing to write back to
	}
	return schedule.New(schedule.Options{
		Kind: kind, When: s.When, User: m.run.inventory.Service.User, Group: m.run.inventory.Service.Group, Config: settings.Path,
		TokenFile: environment.TokenPath(settings.Dir), Program: m.release.Folder.Program(), Shared: m.shares(),
	})
}

// timetable are the steps of a schedule of that kind.
func (m *machine) timetable(kind string) ([]step.Step, error) {
	s, err := m.schedule(kind)
	if err != nil {
		return nil, err
	}
	packages, err := m.packages()
	return s.Steps(packages), err
}

func (r *run) redisSteps(m *machine) ([]step.Step, error) {
	packages, err := m.packages()
	return append([]step.Step{apt.Ready()}, r.redis.Steps(packages)...), err
}

// Plan is Deploy that looks only.
func (t *Toolkit) Plan(ctx context.Context) error {
	t.o.DryRun = true
	return t.deploy(ctx, "plan")
}
