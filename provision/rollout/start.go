package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/step"
)

// start returns the steps that make the daemon run what it should and prove that it does. If
// it does not, all changes made for it are undone and the previous daemon runs again.
func (i *Instance) start() []step.Step {
	return []step.Step{starting{i.daemon.Running(), i}, i.healthy()}
}

// Start returns the steps that start a daemon that is not running.
func (i *Instance) Start() []step.Step {
	return append(append([]step.Step{i.hasRelease()}, i.current()...), i.daemon.Start(), i.healthy())
}

// Restart returns the steps that restart the daemon in any case.
func (i *Instance) Restart() []step.Step {
	return append(append([]step.Step{i.hasRelease()}, i.current()...), &restarting{Wish: i.daemon.Restart(), i: i}, i.healthy())
}

// Stop returns the step that stops the daemon and closes its port.
func (i *Instance) Stop() step.Step { return service.Stop(i.Program.Program) }

// hasRelease proves that a host has a release to start.
func (i *Instance) hasRelease() step.Proof {
	return step.NewProof("release: there", func(ctx context.Context, h host.Host) error {
		list, err := i.Release.Folder.List(ctx, h)
		if err != nil {
			return err
		}
		if _, ok := list.Find(list.Current); !ok {
			return i.hint(errors.New("the host has no release"), "go tool mage deploy, or %s:get and install:service")
		}
		return nil
	})
}

// hint adds the next step, with the name of the program in it.
func (i *Instance) hint(err error, next string) error {
	return fmt.Errorf("%w\nhint: %s", err, fmt.Sprintf(next, i.Program.Name))
}

// starting is the step after which the daemon runs. Its Undo undoes all changes that were
// made for it.
type starting struct {
	step.Wish
	i *Instance
}

// Quiet implements step.Quiet.
func (s starting) Quiet() step.Wish { return s.i.daemon.Running() }

func (s starting) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	change, err := s.Wish.Look(ctx, h)
	if err != nil || change == nil {
		return nil, err
	}
	return change.Applied(func(ctx context.Context) error {
		way, err := s.i.ledger.script(ctx, h.Name())
		if err == nil && way != "" {
			err = s.i.revert.Arm(ctx, h, way)
		}
		if err == nil {
			err = change.Apply(ctx)
		}
		if err == nil {
			s.i.ledger.used()
		}
		return err
	}), nil
}

func (s starting) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	return s.i.rollBack(ctx, h, cause)
}

// restarting is a restart whose Undo goes back to the release that ran before it.
type restarting struct {
	step.Wish
	i   *Instance
	ran string // the release that ran
}

func (r *restarting) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	now, err := service.LastStatus(ctx, h, r.i.Program.Program)
	if err != nil {
		return nil, err
	}
	r.ran = release.IDOf(now.Program)
	change, err := r.Wish.Look(ctx, h)
	if err != nil || change == nil {
		return change, err
	}
	return change.Applied(func(ctx context.Context) error {
		way, err := r.way(ctx, h)
		if err == nil && way != "" {
			err = r.i.revert.Arm(ctx, h, way)
		}
		if err != nil {
			return err
		}
		return change.Apply(ctx)
	}), nil
}

// way is the way back as a script; "": there is nothing to go back to.
func (r *restarting) way(ctx context.Context, h host.Host) (string, error) {
	way, err := r.i.ledger.script(ctx, h.Name())
	if err != nil {
		return "", err
	}
	folder := r.i.Release.Folder
	list, err := folder.List(ctx, h)
	if err != nil {
		return "", err
	}
	if _, there := list.Find(r.ran); !there || r.ran == list.Current {
		return way, nil
	}
	recorder := host.NewRecorder(h.Name())
	err = folder.Point(ctx, recorder, r.ran)
	return way + recorder.Script(), err
}

func (r *restarting) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	if r.i.ledger.isKept() {
		return "", nil
	}
	folder := r.i.Release.Folder
	list, err := folder.List(ctx, h)
	if err != nil {
		return "", err
	}
	_, there := list.Find(r.ran)
	switch {
	case there && r.ran != list.Current:
		if err := folder.Point(ctx, h, r.ran); err != nil {
			return "", err
		}
	case !r.i.ledger.hasBegun():
		return "", r.i.revert.Disarm(ctx, h) // nothing else could run
	}
	return r.i.rollBack(ctx, h, cause) // of units, for example: the daemon must run with those that it had
}

// healthy is the health check. Once it has passed, the failure of an unrelated step undoes
// nothing.
func (i *Instance) healthy() step.Proof {
	health := i.Health.Step()
	return step.NewProof(health.Title(), func(ctx context.Context, h host.Host) error {
		err := health.Prove(ctx, h)
		if err == nil {
			i.ledger.keep(true)
		}
		return err
	})
}

// Bake returns the late steps that watch a daemon that was healthy, and then confirm it. If it crashes
// after all, or the run is interrupted meanwhile, everything is undone; by the host itself, if it is
// not reached any more.
func (i *Instance) Bake() []step.Step {
	confirm := i.confirm()
	long := i.run.Site.Inventory.Fleet.Bake
	if long == 0 || i.run.Site.DryRun {
		return []step.Step{confirm}
	}
	bake := i.Health.Bake(long)
	return []step.Step{step.NewProof(bake.Title(), func(ctx context.Context, h host.Host) error {
		err := bake.Prove(ctx, h)
		if err != nil {
			i.ledger.keep(false)
		}
		return err
	}), confirm}
}

// confirm is the step after which the host keeps what runs. A run that has found no daemon healthy, such as one that
// writes settings for a daemon that does not run, leaves that to the host.
func (i *Instance) confirm() step.Wish {
	confirm := i.revert.Confirm()
	return step.NewWish(confirm.Title(), func(ctx context.Context, h host.Host) (*step.Change, error) {
		if !i.ledger.isKept() && !i.run.Site.DryRun { // a plan leaves the health check out
			return nil, nil
		}
		return confirm.Look(ctx, h)
	})
}

// rollBack returns to the previous daemon.
func (i *Instance) rollBack(ctx context.Context, h host.Host, cause error) (string, error) {
	if i.ledger.isKept() {
		return "", nil // it was healthy: a later step failed, which is not the daemon's fault
	}
	said, err := i.ledger.rollBack(ctx, h, cause, "")
	if err != nil {
		return said, err
	}
	list, err := i.Release.Folder.List(ctx, h)
	if err != nil {
		return said, err
	}
	if list.Current == "" {
		_, err := h.Run(ctx, host.Command{Root: true, Script: service.Stopping(i.Program.Program)})
		return join(said, "there was no daemon before: it is stopped"), errors.Join(err, i.revert.Disarm(ctx, h))
	}
	change, err := i.daemon.Restart().Look(ctx, h)
	if err == nil {
		err = change.Apply(ctx)
	}
	if err == nil {
		err = i.revert.Disarm(ctx, h)
	}
	if err == nil && errors.Is(cause, context.Canceled) {
		// A user who has interrupted the run does not wait for a check.
		return join(said, "rolled back: release "+list.Current+" is up again; go tool mage "+i.Program.Name+":status shows its state"), nil
	}
	if err == nil {
		err = i.Health.Prove(ctx, h)
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
