package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/site"
)

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
