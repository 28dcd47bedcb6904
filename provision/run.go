package provision

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mongodb"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/release"
)

// run is one target under way: what its hosts share.
type run struct {
	*Toolkit
	at       time.Time // the same for all hosts: releases are named by it
	machines map[string]*machine

	mu       sync.Mutex
	binaries map[string]*release.Binaries // by what was given for them
	redis    *redis.Server                // nil: no host has the role
	password func(context.Context) (string, error)
	mongo    *mongodb.Server // nil: no host has the role
	certs    *pki.Certificates
	uris     uris
	offline  bool // no host is asked
	bundles  map[string]*apt.Bundle
	turn     chan struct{} // of the host that makes bit-maps
}

func (t *Toolkit) newRun() (*run, error) {
	r := &run{Toolkit: t, at: time.Now().UTC().Truncate(time.Second), machines: map[string]*machine{}, binaries: map[string]*release.Binaries{}, turn: make(chan struct{}, 1)}
	r.certs = pki.New(t.certificates())
	if with := t.inventory.With(inventory.RoleRedis); len(with) > 0 {
		options, err := t.redisOptions(with[0])
		if err != nil {
			return nil, err
		}
		if t.inventory.Redis.TLS {
			options.TLSPort = t.inventory.Redis.TLSPort
			options.Certificate = r.certificate(with[0], options.Bind)
		}
		options.Known = r.knownPassword
		if r.redis, err = redis.New(options); err != nil {
			return nil, err
		}
		r.password = r.redisPassword(with[0])
	}
	if with := t.inventory.With(inventory.RoleMongoDB); len(with) > 0 {
		options, err := t.mongoOptions(with[0])
		if err != nil {
			return nil, err
		}
		if t.inventory.MongoDB.TLS {
			options.Certificate = r.certificate(with[0], options.Bind)
			options.Client = func(ctx context.Context) (*tls.Config, error) { return r.certs.Client(ctx, with[0].Name) }
		}
		if r.mongo, err = mongodb.New(options); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// close closes the bundles that were opened.
func (r *run) close() error {
	var failed []error
	for _, b := range r.bundles {
		failed = append(failed, b.Close())
	}
	return errors.Join(failed...)
}

// openBundles opens those of the inventory, so that a damaged one is told before a host is
// touched.
func (r *run) openBundles() error {
	for _, path := range []string{r.inventory.Packages.Bundle, r.inventory.MongoDB.Bundle} {
		if path == "" {
			continue
		}
		if _, err := r.system(path); err != nil {
			return err
		}
	}
	return nil
}

// system is how packages get on a host: from a bundle at path, or from repositories.
func (r *run) system(path string) (*apt.System, error) {
	o := apt.Options{Proxy: r.inventory.Packages.Proxy, KeepLists: !r.inventory.Packages.Update}
	if path != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.bundles[path] == nil {
			b, err := apt.OpenBundle(path)
			if err != nil {
				return nil, err
			}
			if r.bundles == nil {
				r.bundles = map[string]*apt.Bundle{}
			}
			r.bundles[path] = b
		}
		o.Bundle = r.bundles[path]
	}
	return apt.New(o), nil
}
