// Package site knows what the hosts of one run have in common: the servers that programs
// call, with their passwords and certificates, the packages that are brought along, and
// the settings of each program that follow from all of that. It has steps for those
// servers; the programs' own are in package rollout.
package site

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mongodb"
	"github.com/cr-clawer/urifilter/provision/mysql"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Options are what a run knows from the beginning.
type Options struct {
	Inventory *inventory.Inventory
	Programs  []program.Program
	// Tokens are those of the operator's tokens files, by program; none: there is no file.
	Tokens map[string]configs.Tokens
	// DryRun: a plan is made. Offline: no host may be contacted.
	DryRun, Offline bool
	// Dir is the folder of the toolkit's own files on this machine.
	Dir string
	// Renew: certificates made before this time are renewed.
	Renew  time.Time
	Getenv func(string) string
	Masker *secret.Masker
	// Resolve returns the address to which SSH connects for a host: that of ssh_config, if its address
	// is a name in it. Nil: the host's address.
	Resolve func(inventory.Host) string
	// Visit does something on a host that need not be part of the run.
	Visit func(ctx context.Context, h inventory.Host, do func(host.Host) error) error
}

// Site belongs to one run. It is safe for concurrent use.
type Site struct {
	Options
	redis    *redis.Server // nil: no host has the role
	password func(context.Context) (string, error)
	mysql    *mysql.Server // nil: no host has the role
	// mysqlPassword returns the password of the daemons' user.
	mysqlPassword func(context.Context) (string, error)
	mongo         *mongodb.Server // nil: no host has the role
	certs         *pki.Certificates
	uris          uris
	wrote, made   known // settings: what people wrote, and with what follows from roles

	mu      sync.Mutex
	bundles map[string]*apt.Bundle // by path
	systems map[source]*apt.System
}

// source is where the packages of a host come from: a bundle at path, "" for repositories.
type source struct{ host, path string }

// New returns an error if the inventory's words on servers are wrong. Close ends the Site.
func New(o Options) (*Site, error) {
	s := &Site{Options: o, certs: pki.New(Certificates(o)), bundles: map[string]*apt.Bundle{}, systems: map[source]*apt.System{}}
	inv := o.Inventory
	if with := inv.With(inventory.RoleRedis); len(with) > 0 {
		options, err := s.redisOptions(with[0])
		if err != nil {
			return nil, err
		}
		if inv.Redis.TLS {
			options.TLSPort = inv.Redis.TLSPort
			options.Certificate = s.certificate(with[0], options.Bind)
		}
		options.Known = s.knownPassword
		if s.redis, err = redis.New(options); err != nil {
			return nil, err
		}
		s.password = s.once(with[0], s.redis.Password)
	}
	if with := inv.With(inventory.RoleMySQL); len(with) > 0 {
		options, err := s.mysqlOptions(with[0])
		if err != nil {
			return nil, err
		}
		s.mysql = mysql.New(options)
		s.mysqlPassword = s.once(with[0], s.mysql.Password)
	}
	if with := inv.With(inventory.RoleMongoDB); len(with) > 0 {
		options, err := s.mongoOptions(with[0])
		if err != nil {
			return nil, err
		}
		if inv.MongoDB.TLS {
			options.Certificate = s.certificate(with[0], options.Bind)
			options.Client = func(ctx context.Context) (*tls.Config, error) { return s.certs.Client(ctx, with[0].Name) }
		}
		if s.mongo, err = mongodb.New(options); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Certificates returns options that say where certificates come from.
func Certificates(o Options) pki.Options {
	c := o.Inventory.TLS
	dir := cmp.Or(c.Dir, filepath.Join(o.Dir, "tls"))
	return pki.Options{Dir: dir, Life: time.Duration(c.Days) * 24 * time.Hour, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Renew: o.Renew}
}

// Close closes the bundles that were opened.
func (s *Site) Close() error {
	var failed []error
	for _, b := range s.bundles {
		failed = append(failed, b.Close())
	}
	return errors.Join(failed...)
}

// OpenBundles opens the bundles of the inventory, so that a damaged one is reported before a
// host is touched.
func (s *Site) OpenBundles() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range []string{s.Inventory.Packages.Bundle, s.Inventory.MongoDB.Bundle} {
		if _, err := s.bundle(path); err != nil {
			return err
		}
	}
	return nil
}

// bundle opens a bundle, once; nil for the path "". The lock must be held.
func (s *Site) bundle(path string) (*apt.Bundle, error) {
	if path == "" || s.bundles[path] != nil {
		return s.bundles[path], nil
	}
	b, err := apt.OpenBundle(path)
	if err == nil {
		s.bundles[path] = b
	}
	return b, err
}

// Packages returns how packages get on a host. It is the same for all of the host's steps,
// which then refresh its lists once.
func (s *Site) Packages(h inventory.Host) (*apt.System, error) {
	return s.packages(source{h.Name, s.Inventory.Packages.Bundle})
}

func (s *Site) packages(from source) (*apt.System, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.systems[from] == nil {
		b, err := s.bundle(from.path)
		if err != nil {
			return nil, err
		}
		s.systems[from] = apt.New(apt.Options{Proxy: s.Inventory.Packages.Proxy, KeepLists: !s.Inventory.Packages.Update, Bundle: b})
	}
	return s.systems[from], nil
}

// On returns a program as a host runs it. The host's roles must go together.
func (s *Site) On(h inventory.Host, p program.Program) program.Program {
	on, err := p.For(h.Roles)
	if err != nil {
		panic(err) // this was reported when the inventory was opened
	}
	return on
}

// callers returns the hosts that run a program whose servers satisfy calls.
func (s *Site) callers(calls func(program.Servers) bool) []inventory.Host {
	return slices.DeleteFunc(slices.Clone(s.Inventory.Hosts), func(h inventory.Host) bool {
		return !slices.ContainsFunc(s.Programs, func(p program.Program) bool {
			return slices.ContainsFunc(p.Roles, h.Has) && calls(s.On(h, p).Servers)
		})
	})
}

// with returns the hosts that run a program.
func (s *Site) with(p program.Program) []inventory.Host {
	return inventory.Having(s.Inventory.Hosts, p.Roles...)
}

// Collect has a host download the packages of the inventory's roles and settings into a folder here.
func (s *Site) Collect(ctx context.Context, h host.Host, dir string) error {
	var packages []string
	var repositories []apt.Repository
	if s.redis != nil {
		packages = append(packages, s.redis.Package())
	}
	if s.mysql != nil {
		packages = append(packages, s.mysql.Package())
	}
	if s.Inventory.Schedule.Kind == schedule.Crontab {
		packages = append(packages, "cron")
	}
	for _, p := range s.Programs {
		for _, h := range s.with(p) {
			for _, needed := range s.Needs(h, s.On(h, p)) {
				if !slices.Contains(packages, needed) {
					packages = append(packages, needed)
				}
			}
		}
	}
	if s.mongo != nil {
		facts, err := host.FactsOf(ctx, h)
		if err != nil {
			return err
		}
		more, from, err := s.mongo.Sources(ctx, facts)
		if err != nil {
			return err
		}
		packages, repositories = append(packages, more...), from
	}
	if len(packages) == 0 {
		return nil
	}
	return apt.Collect(ctx, h, dir, repositories, packages...)
}

// Paths on a host of the certificate with which a program calls Redis and the archive.
func authority(p program.Program) string { return p.ConfigDir() + "/tls.ca.pem" }
func pair(p program.Program) string      { return p.ConfigDir() + "/tls.pem" }

// certificate returns the step for a server on a host, with every name by which it is called.
func (s *Site) certificate(h inventory.Host, bind []string) func(pki.Place) step.Step {
	var names []string
	for _, name := range slices.Concat([]string{"127.0.0.1", "localhost", h.Address, s.reached(h)}, bind) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return func(p pki.Place) step.Step { return s.certs.Step(p, h.Name, names) }
}

// Certified reports whether a program on a host calls a server of the inventory over TLS.
func (s *Site) Certified(h inventory.Host, p program.Program) bool {
	inv := s.Inventory
	given, err := s.given(h, p)
	return s.Shares(h, p) && inv.Redis.TLS || err == nil && p.Servers.MongoDB && inv.MongoDB.TLS && s.mongo != nil && !given.Has("mongodb.uri")
}

// CallingCard is the step that brings that certificate to the host. The daemon picks up a
// renewed one by itself.
func (s *Site) CallingCard(h inventory.Host, p program.Program, group string) step.Wish {
	place := pki.Place{Name: "settings: certificate", CA: authority(p), Pair: pair(p), Group: pki.As(group)}
	return s.certs.Step(place, h.Name, nil)
}
