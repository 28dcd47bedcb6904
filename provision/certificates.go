package provision

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Where filter hosts have the certificate by which their daemon calls Redis and the archive.
const (
	daemonAuthority = settings.Dir + "/tls.ca.pem"
	daemonPair      = settings.Dir + "/tls.pem"
)

// certificates say where they come from.
func (t *Toolkit) certificates() pki.Options {
	c := t.inventory.TLS
	dir := c.Dir
	if dir == "" {
		dir = filepath.Join(t.o.Dir, ".urifilter", "tls")
	}
	return pki.Options{Dir: dir, Life: time.Duration(c.Days) * 24 * time.Hour, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Renew: t.renew}
}

// certificate is the step for a server on a host: by every name that it is called by.
func (r *run) certificate(h inventory.Host, bind []string) func(pki.Place) step.Step {
	var names []string
	for _, name := range slices.Concat([]string{"127.0.0.1", "localhost", h.Address}, bind) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return func(p pki.Place) step.Step { return r.certs.Step(p, h.Name, names) }
}

// certified tells whether a host's daemon calls a server of the inventory by TLS.
func (m *machine) certified() bool {
	inv := m.run.inventory
	given, err := m.given()
	return m.shares() && inv.Redis.TLS || err == nil && inv.MongoDB.TLS && m.run.mongo != nil && !given.Has("mongodb.uri")
}

// callingCard is the step of a filter host. The daemon takes a renewed certificate by itself.
func (m *machine) callingCard() step.Wish {
	place := pki.Place{Name: "settings: certificate", CA: daemonAuthority, Pair: daemonPair, Group: pki.As(m.run.inventory.Service.Group)}
	return m.run.certs.Step(place, m.host.Name, nil)
}

// closePlain is the phase after which Redis speaks TLS alone.
func (r *run) closePlain() []fleet.Phase {
	with := r.with(inventory.RoleRedis)
	if len(with) == 0 || !r.inventory.Redis.TLS {
		return nil
	}
	return []fleet.Phase{r.phase("redis, plain port", with, func(*machine) ([]step.Step, error) {
		return []step.Step{r.redis.ClosePlain(r.plainCaller)}, nil
	})}
}

// plainCaller says which filter host calls Redis without TLS still, "" for none. In a plan
// those of the run count as done.
func (r *run) plainCaller(ctx context.Context) (string, error) {
	for _, h := range r.inventory.With(inventory.RoleFilter) {
		if !r.machine(h).shares() || r.o.DryRun && slices.ContainsFunc(r.hosts, func(c inventory.Host) bool { return c.Name == h.Name }) {
			continue
		}
		why := ""
		err := r.visit(ctx, h, func(at host.Host) error {
			c, there, err := settings.OnHost(ctx, at)
			if err == nil && there && c.Store == "redis" && !c.Redis.TLS {
				why = fmt.Sprintf("host %s calls it without TLS; go tool mage deploy -hosts=%[1]s changes that", h.Name)
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			return fmt.Sprintf("host %s may need it: %v", h.Name, err), nil
		case why != "":
			return why, nil
		}
	}
	return "", nil
}

// RenewCertificates makes every certificate of the toolkit's authority anew, puts them in
// use, and proves it; no daemon is restarted for it.
func (t *Toolkit) RenewCertificates(ctx context.Context) error {
	if !t.inventory.Redis.TLS && !t.inventory.MongoDB.TLS {
		return fleet.Usage(fmt.Errorf("%s: neither redis.tls nor mongodb.tls is true: there are no certificates", t.inventory.From()))
	}
	if err := pki.Renew(t.certificates(), t.o.DryRun); err != nil {
		return fleet.Usage(err)
	}
	t.renew = time.Now()
	return t.do(ctx, "certificates:renew", func(r *run) ([]fleet.Phase, error) {
		if err := r.openBundles(); err != nil {
			return nil, err
		}
		var phases []fleet.Phase
		if with := t.with(inventory.RoleRedis); len(with) > 0 {
			phases = append(phases, r.phase(inventory.RoleRedis, with, r.redisSteps))
		}
		if with := t.with(inventory.RoleMongoDB); len(with) > 0 {
			phases = append(phases, r.phase(inventory.RoleMongoDB, with, r.mongodbSteps))
		}
		if with := t.with(inventory.RoleFilter); len(with) > 0 {
			phases = append(phases, r.pushPhase(with))
		}
		return phases, nil
	})
}
