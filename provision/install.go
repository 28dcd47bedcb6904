package provision

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/site"
	"github.com/cr-clawer/urifilter/provision/step"
)

// InstallEnv makes the user, the folders and the host's own token on the daemon's hosts.
func (t *Toolkit) InstallEnv(ctx context.Context) error {
	return t.onAllDaemons(ctx, "install:env", func(i *rollout.Instance) ([]step.Step, error) { return i.Environment(), nil })
}

// InstallRedis installs Redis on its host.
func (t *Toolkit) InstallRedis(ctx context.Context) error {
	return t.onServers(ctx, "install:redis", inventory.RoleRedis, (*site.Site).RedisSteps)
}

// InstallMySQL installs MariaDB on its host.
func (t *Toolkit) InstallMySQL(ctx context.Context) error {
	return t.onServers(ctx, "install:mysql", inventory.RoleMySQL, (*site.Site).MySQLSteps)
}

// InstallMongoDB installs the archive on its host.
func (t *Toolkit) InstallMongoDB(ctx context.Context) error {
	return t.onServers(ctx, "install:mongodb", inventory.RoleMongoDB, (*site.Site).MongoDBSteps)
}

// InstallSettings writes the settings on the daemon's hosts, without a restart.
func (t *Toolkit) InstallSettings(ctx context.Context) error {
	if err := t.check(ctx, nil); err != nil {
		return err
	}
	return t.onAllDaemons(ctx, "install:settings", func(i *rollout.Instance) ([]step.Step, error) { return i.Settings(), nil })
}

// InstallService registers the daemon with systemd. A host without a release gets one.
func (t *Toolkit) InstallService(ctx context.Context) error {
	return t.onAllDaemons(ctx, "install:service", func(i *rollout.Instance) ([]step.Step, error) { return i.Install(), nil })
}

// InstallAll is all of the above, for the hosts of each role: everything a fleet needs before a
// release.
func (t *Toolkit) InstallAll(ctx context.Context) error {
	return t.execute(ctx, "install:all", func(r *run) ([]fleet.Phase, error) {
		if err := errors.Join(r.checkGiven(), t.check(ctx, nil)); err != nil {
			return nil, err
		}
		phases := r.servers()
		for _, p := range t.o.Programs {
			if hosts := t.running(p); len(hosts) > 0 {
				phases = append(phases, r.phaseOf(p, hosts, always(func(i *rollout.Instance) ([]step.Step, error) {
					return append(append(i.Environment(), i.Settings()...), i.Install()...), nil
				}), nil))
			}
		}
		return phases, nil
	})
}
