package provision

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/step"
)

// InstallEnv makes the user, the folders and the host's own token on filter hosts.
func (t *Toolkit) InstallEnv(ctx context.Context) error {
	return t.onFilters(ctx, "install:env", func(m *machine) ([]step.Step, error) { return m.environment(), nil })
}

// InstallRedis installs Redis on its host.
func (t *Toolkit) InstallRedis(ctx context.Context) error {
	return t.on(ctx, "install:redis", inventory.RoleRedis, func(r *run) func(*machine) ([]step.Step, error) { return r.redisSteps })
}

// InstallMongoDB installs the archive on its host.
func (t *Toolkit) InstallMongoDB(ctx context.Context) error {
	return t.on(ctx, "install:mongodb", inventory.RoleMongoDB, func(r *run) func(*machine) ([]step.Step, error) { return r.mongodbSteps })
}

// InstallSettings puts the settings on filter hosts, without a restart.
func (t *Toolkit) InstallSettings(ctx context.Context) error {
	return t.onFilters(ctx, "install:settings", func(m *machine) ([]step.Step, error) { return m.settingsSteps(), nil })
}

// InstallService registers the daemon with systemd. A host without a release gets one.
func (t *Toolkit) InstallService(ctx context.Context) error {
	return t.onFilters(ctx, "install:service", (*machine).install)
}

func (m *machine) install() ([]step.Step, error) {
	return append([]step.Step{m.release.UploadFirst(), m.ledger.watch(m.release.Current())}, m.serviceSteps()...), nil
}

// InstallAll is all of the above, for the hosts of each role: what a fleet needs before
// a release comes.
func (t *Toolkit) InstallAll(ctx context.Context) error {
	return t.do(ctx, "install:all", func(r *run) ([]fleet.Phase, error) {
		if err := errors.Join(r.openBundles(), r.checkPrograms()); err != nil {
			return nil, err
		}
		var phases []fleet.Phase
		for _, part := range []struct {
			role  string
			steps func(*machine) ([]step.Step, error)
		}{
			{inventory.RoleRedis, r.redisSteps},
			{inventory.RoleMongoDB, r.mongodbSteps},
			{inventory.RoleFilter, func(m *machine) ([]step.Step, error) {
				rest, err := m.install()
				return append(append(m.environment(), m.settingsSteps()...), rest...), err
			}},
		} {
			if with := t.with(part.role); len(with) > 0 {
				phases = append(phases, r.phase(part.role, with, part.steps))
			}
		}
		return phases, nil
	})
}

// onFilters runs steps on all filter hosts at once.
func (t *Toolkit) onFilters(ctx context.Context, target string, steps func(*machine) ([]step.Step, error)) error {
	return t.on(ctx, target, inventory.RoleFilter, func(*run) func(*machine) ([]step.Step, error) { return steps })
}

func (t *Toolkit) on(ctx context.Context, target, role string, steps func(*run) func(*machine) ([]step.Step, error)) error {
	hosts, err := t.some(role)
	if err != nil {
		return err
	}
	return t.do(ctx, target, func(r *run) ([]fleet.Phase, error) {
		if role != inventory.RoleFilter { // those of the daemon install no packages
			if err := r.openBundles(); err != nil {
				return nil, err
			}
		} else if err := r.checkPrograms(); err != nil {
			return nil, err
		}
		return []fleet.Phase{r.phase(role, hosts, steps(r))}, nil
	})
}

// daemons runs steps on filter hosts after which their daemons run, and watches these; the
// canary first, where it is rolling.
func (t *Toolkit) daemons(ctx context.Context, target string, rolling bool, steps func(*machine) ([]step.Step, error)) error {
	hosts, err := t.filters()
	if err != nil {
		return err
	}
	return t.do(ctx, target, func(r *run) ([]fleet.Phase, error) {
		p := r.phase(inventory.RoleFilter, hosts, steps)
		p.Rolling = rolling
		for i, h := range hosts {
			m := r.machine(h)
			p.Jobs[i].Late = append(m.bake(), m.release.Folder.Healthy())
		}
		return []fleet.Phase{p}, nil
	})
}
