package rollout

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
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
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
		if now.Unconfirmed {
			step.Warn(ctx, "nobody has confirmed what was started last: unless a run does, the host goes back from it by itself, and from these settings: go tool mage deploy")
		}
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

// Schedule returns the schedule of the program's job, of a kind; a job that writes back has
// none where there is no archive.
func (i *Instance) Schedule(kind string) (*schedule.Schedule, error) {
	if i.Program.BitMaps && !i.Archived() {
		kind = schedule.None
	}
	return schedule.New(schedule.Options{
		Program: i.Program.Program, Kind: kind, When: i.run.Site.Inventory.Schedule.When, User: i.user(), Group: i.group(),
		Shared: i.run.Site.Shares(i.Host, i.Program),
	})
}

// Timetable returns the steps of a schedule of that kind; none for a program without a job.
func (i *Instance) Timetable(kind string) ([]step.Step, error) {
	if i.Program.Job == nil {
		return nil, nil
	}
	s, err := i.Schedule(kind)
	if err != nil {
		return nil, err
	}
	packages, err := i.run.Site.Packages(i.Host)
	return s.Steps(packages), err
}

// minDisk is the free space, in KiB, that a release and its upload need where releases are.
const minDisk = 100 << 10

// Preflight checks what must hold on the host before anything is changed. The program comes
// last, because building it takes the longest. The titles name the program: a host may run
// several, and all of their preflights are asked for.
func (i *Instance) Preflight() []step.Step {
	title := "preflight: build " + i.Program.Name
	if i.run.Builds.ready(i.Host, i.Program) != "" {
		title = "preflight: program " + i.Program.Name
	}
	return append(step.Early(
		step.NewProof("preflight: no package of "+i.Program.Name, i.units.Alone),
		step.NewProof("preflight: disk for "+i.Program.Name, func(ctx context.Context, h host.Host) error {
			script := fmt.Sprintf(`for d in %s/releases %[1]s /opt /; do [ ! -d "$d" ] || break; done; free=$(df -Pk "$d" | awk 'NR==2{print $4}'); [ "$free" -ge %[2]d ] || { echo "$((free/1024)) MB are free on $(df -P "$d" | awk 'NR==2{print $6}'): want %[3]d MB for a release" >&2; exit 1; }`,
				host.Quote(i.Program.Root()), minDisk, minDisk>>10)
			_, err := h.Run(ctx, host.Command{Script: script, Look: true})
			if failed, is := errors.AsType[*host.CommandError](err); is {
				return fmt.Errorf("%s\nhint: free space there", strings.TrimSpace(failed.Output.Stderr))
			}
			return err
		}),
		i.SettingsCheck(),
	), step.NewProof(title, func(ctx context.Context, h host.Host) error {
		_, err := i.binary(ctx, h)
		return err
	}))
}

// SettingsCheck is the preflight of the settings. Its errors say what to do next.
func (i *Instance) SettingsCheck() step.Proof {
	files := *i.settings
	files.Values = func(ctx context.Context) (settings.Values, error) {
		return i.run.Site.Settings(ctx, i.Host, i.Program, true)
	}
	check := files.Check()
	return step.NewProof(check.Title()+" of "+i.Program.Name, func(ctx context.Context, h host.Host) error {
		err := Hinted(check.Prove(ctx, h), i.Program)
		if ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) || errors.As(err, new(*host.CommandError)) {
			return err
		}
		return fleet.Usage(err)
	})
}

// Hinted adds a hint to an error about settings that would make a daemon let everybody in.
func Hinted(err error, p program.Program) error {
	if err != nil && strings.Contains(err.Error(), "set auth.tokens_file") {
		return fmt.Errorf("%w\nhint: %s makes a token for whoever calls it", err, TokenCall(p))
	}
	return err
}

// TokenCall returns the command that makes a token for most callers of a program.
func TokenCall(p program.Program) string {
	call := "go tool mage settings:token -name=crawler -scopes=" + p.Caller
	if !p.Runs(inventory.RoleFilter) {
		call += " -program=" + p.Name
	}
	return call
}
