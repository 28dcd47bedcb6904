package rollout

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Deploy returns all steps from an empty host to a healthy daemon, and those that keep it so.
func (i *Instance) Deploy() ([]step.Step, error) {
	timetable, err := i.Timetable(i.run.Site.Inventory.Schedule.Kind)
	if err != nil {
		return nil, err
	}
	before := step.Early(append(i.Environment(), i.Release.Upload())...) // its paths have the release in them
	steps := append(i.Settings(), i.accepted(i.units.Binary), i.crashed(), i.ledger.watch(i.Release.Current()))
	steps = append(steps, i.unitSteps()...)
	bitmaps := i.Program.BitMaps && i.Archived()
	if bitmaps {
		// If the daemon runs, this is skipped, and done below once it knows the new settings.
		steps = append(steps, i.BitMaps.Init(i.BitMapNames, i.running))
	}
	start := i.start()
	steps = append(before, step.Early(append(steps, start[0])...)...)
	steps = append(steps, start[1:]...)
	if bitmaps {
		again := i.BitMaps.Init(i.BitMapNames, i.planned)
		timetable = append([]step.Step{step.NewWish(again.Title()+", running", again.Look)}, timetable...)
	}
	return append(steps, step.Early(timetable...)...), nil
}

// Late returns the late steps: watching a deployed daemon, and what must wait for that.
func (i *Instance) Late() []step.Step {
	late := i.Bake()
	last := len(late) - 1
	return append(late[:last], step.Early(late[last], i.Release.Healthy(), i.Release.Prune())...)
}

// planned reports whether, in a plan, the previous step makes the bit-maps.
func (i *Instance) planned(ctx context.Context, h host.Host) (bool, error) {
	if !i.run.Site.DryRun {
		return false, nil
	}
	up, err := i.running(ctx, h)
	return !up, err
}

// Environment returns the steps that make the host ready for the program.
func (i *Instance) Environment() []step.Step {
	o := environment.Options{Program: i.Program.Program, User: i.user(), Group: i.group()}
	for _, c := range i.settings.Callers {
		o.Callers = append(o.Callers, c.Name)
	}
	return environment.Steps(o)
}

// Settings returns the steps for the files that the daemon reads.
func (i *Instance) Settings() []step.Step {
	s := i.run.Site
	steps := i.packages()
	if s.Shares(i.Host, i.Program) {
		steps = append(steps, i.ledger.watch(s.PasswordFile(i.Program, i.group())))
	}
	if s.SharesMySQL(i.Host, i.Program) {
		steps = append(steps, i.ledger.watch(s.MySQLPasswordFile(i.Program, i.group())))
	}
	if s.AsksFilter(i.Host, i.Program) {
		steps = append(steps, i.ledger.watch(s.FilterTokenFile(i.Host, i.Program, i.group())))
	}
	if s.Certified(i.Host, i.Program) {
		steps = append(steps, i.ledger.record(s.CallingCard(i.Host, i.Program, i.group())))
	}
	// The files that the settings name are written before them. The daemon rereads tokens
	// without a restart, so they are no reason for one.
	return step.Early(append(steps, i.ledger.record(i.settings.TokensFile()), i.ledger.watch(i.settings.Settings()))...)
}

// packages returns the steps that install what the settings need.
func (i *Instance) packages() []step.Step {
	needed := i.run.Site.Needs(i.Host, i.Program)
	if len(needed) == 0 {
		return nil
	}
	title := i.Program.Name + ": packages"
	return []step.Step{apt.Ready(), step.NewWish(title, func(ctx context.Context, h host.Host) (*step.Change, error) {
		system, err := i.run.Site.Packages(i.Host)
		if err != nil {
			return nil, err
		}
		return system.Install(title, needed...).Look(ctx, h)
	})}
}

// accepted is the step in which a program on the host checks the settings before it is made current.
func (i *Instance) accepted(binary func() string) step.Proof {
	return i.settings.Accepted(binary, i.user())
}

// crashed is the step that removes the mark from a crashed release before another is made current.
func (i *Instance) crashed() step.Wish {
	return i.Release.Folder.Unhealthy(func(ctx context.Context, h host.Host) (bool, error) {
		s, err := service.LastStatus(ctx, h, i.Program.Program)
		return s.Crashed(), err
	})
}

// unitSteps returns the steps in which the release brings its units up to date.
func (i *Instance) unitSteps() []step.Step {
	var steps []step.Step
	for _, s := range i.units.Steps() {
		steps = append(steps, i.ledger.watch(s))
	}
	return steps
}

// current returns the steps in which the current release brings its units up to date: the
// port depends on the settings.
func (i *Instance) current() []step.Step {
	i.units.Binary = i.Release.Folder.Program
	return i.unitSteps()
}

// Install returns the steps that register the daemon. A host without a release gets one.
func (i *Instance) Install() []step.Step {
	return append([]step.Step{i.Release.UploadFirst(), i.ledger.watch(i.Release.Current())}, i.unitSteps()...)
}

// Push returns the steps that bring a release and make it current. A running daemon keeps
// its old release until it is restarted.
func (i *Instance) Push() []step.Step {
	steps := []step.Step{i.Release.Upload(), i.crashed(), i.Release.Current()}
	if i.Program.BitMaps && i.Archived() {
		steps = append(steps, i.BitMaps.Init(i.BitMapNames, nil))
	}
	return append(steps, i.Release.Prune())
}

// PushSettings returns the steps that bring settings and make a running daemon use them.
// They depend on the state of the host: settings may exist before a daemon does.
func (i *Instance) PushSettings(ctx context.Context, h host.Host) ([]step.Step, error) {
	steps := i.Settings()
	now, err := service.LastStatus(ctx, h, i.Program.Program)
	if err != nil {
		return nil, err
	}
	list, err := i.Release.Folder.List(ctx, h)
	if err != nil {
		return nil, err
	}
	if list.Current != "" && now.Load == "loaded" { // a release that systemd knows
		steps = append(steps, i.accepted(i.Release.Folder.Program))
		steps = append(steps, i.current()...)
	}
	if !now.Running() {
		step.Say(ctx, "no daemon runs here: it reads the settings when it is started")
		return steps, nil
	}
	return append(steps, i.start()...), nil
}

// Find is the preflight of a rollback. agreed returns the release that all hosts go to.
func (i *Instance) Find(agreed func(name string) (release.Manifest, error)) step.Proof {
	return step.NewProof("release: find", func(ctx context.Context, h host.Host) error {
		to, err := agreed(h.Name())
		i.target = to.ID
		if errors.Is(err, release.ErrNoPrevious) {
			return i.hint(err, "`go tool mage %s:releases` lists what is there; -version=ID also takes one that was never healthy")
		}
		return err
	})
}

// Rollback returns the steps that make the release that Find has found current.
func (i *Instance) Rollback() []step.Step {
	folder := i.Release.Folder
	i.units.Binary = func() string { return folder.ProgramOf(i.target) }
	steps := []step.Step{
		i.accepted(i.units.Binary), i.crashed(),
		i.ledger.watch(folder.Pointing(func() string { return i.target })),
	}
	return append(append(steps, i.unitSteps()...), i.start()...)
}
