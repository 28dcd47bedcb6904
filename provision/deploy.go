package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/site"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Deploy brings the whole fleet to the state in the inventory, in order: preflight of all hosts;
// Redis, MariaDB and the archive on their hosts; then each program, rolling over its hosts:
// environment, release, settings, service, bit-maps, start, health check, schedule. A host whose
// daemon does not become healthy is brought back to its previous state. At the end Redis's plain
// port is closed, if Redis requires TLS and every host uses it.
func (t *Toolkit) Deploy(ctx context.Context) error { return t.deploy(ctx, "deploy") }

// Plan is Deploy as a dry run.
func (t *Toolkit) Plan(ctx context.Context) error {
	t.o.DryRun = true
	return t.deploy(ctx, "plan")
}

func (t *Toolkit) deploy(ctx context.Context, target string) error {
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		if err := errors.Join(r.checkGiven(), t.check(ctx, nil)); err != nil {
			return nil, err
		}
		phases := r.servers()
		for i := range phases {
			phases[i].Required = true
		}
		for _, p := range t.o.Programs {
			if hosts := t.running(p); len(hosts) > 0 {
				phase := r.phaseOf(p, hosts, always((*rollout.Instance).Deploy), func(i *rollout.Instance, j *fleet.Job) {
					j.Preflight = append(j.Preflight, i.Preflight()...)
					j.Late = i.Late()
				})
				phase.Rolling = true
				phases = append(phases, phase)
			}
		}
		return append(phases, r.closePlain()...), nil
	})
}

// checkGiven checks bundles and ready programs before any host is contacted.
func (r *run) checkGiven() error {
	run := slices.DeleteFunc(slices.Clone(r.o.Programs), func(p program.Program) bool { return len(r.running(p)) == 0 })
	return errors.Join(r.site.OpenBundles(), r.checkPrograms(run))
}

// servers returns the phases of the servers that programs call.
func (r *run) servers() []fleet.Phase {
	var phases []fleet.Phase
	if with := r.with(inventory.RoleRedis); len(with) > 0 {
		phases = append(phases, r.phase(inventory.RoleRedis, with, r.site.RedisSteps))
	}
	if with := r.with(inventory.RoleMySQL); len(with) > 0 {
		phases = append(phases, r.phase(inventory.RoleMySQL, with, r.site.MySQLSteps))
	}
	if with := r.with(inventory.RoleMongoDB); len(with) > 0 {
		p := r.phase(inventory.RoleMongoDB, with, r.site.MongoDBSteps)
		p.Jobs[0].Preflight = append(p.Jobs[0].Preflight, r.site.MongoDBPreflight()...)
		phases = append(phases, p)
	}
	for _, p := range phases {
		for n, h := range r.with(p.Name) { // the name of a phase is that of its role
			bind := r.site.BindPreflight(h)
			p.Jobs[n].Preflight = append(p.Jobs[n].Preflight, step.NewProof(bind.Title(), func(ctx context.Context, at host.Host) error {
				err := bind.Prove(ctx, at)
				if errors.As(err, new(*site.InventoryError)) {
					return fleet.Usage(err)
				}
				return err
			}))
		}
	}
	return phases
}

// closePlain returns the phase after which Redis accepts only TLS.
func (r *run) closePlain() []fleet.Phase {
	with := r.with(inventory.RoleRedis)
	if len(with) == 0 || !r.inventory.Redis.TLS {
		return nil
	}
	return []fleet.Phase{r.phase("redis, plain port", with, func(inventory.Host) ([]step.Step, error) {
		return []step.Step{r.site.ClosePlain(r.hosts)}, nil
	})}
}

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

// RenewCertificates renews every certificate of the toolkit's authority, activates them, and
// verifies this; no daemon is restarted.
func (t *Toolkit) RenewCertificates(ctx context.Context) error {
	if !t.inventory.Redis.TLS && !t.inventory.MongoDB.TLS {
		return fleet.Usage(fmt.Errorf("%s: neither redis.tls nor mongodb.tls is true: there are no certificates", t.inventory.From()))
	}
	if err := pki.Renew(site.Certificates(t.siteOptions(false)), t.o.DryRun); err != nil {
		return fleet.Usage(err)
	}
	t.renew = time.Now()
	return t.execute(ctx, "certificates:renew", func(r *run) ([]fleet.Phase, error) {
		if err := r.site.OpenBundles(); err != nil {
			return nil, err
		}
		phases := r.servers()
		for _, p := range t.o.Programs {
			if hosts := t.running(p); len(hosts) > 0 && (p.Servers.Redis || p.Servers.MongoDB) {
				phases = append(phases, r.pushSettings(p, hosts))
			}
		}
		return phases, nil
	})
}
