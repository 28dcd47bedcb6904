package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mongodb"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// mongoOptions returns the options of the host that has the role.
func (s *Site) mongoOptions(h inventory.Host) (mongodb.Options, error) {
	o := s.Inventory.MongoDB
	bind, err := s.bind("mongodb.bind", h, o.Bind, func(s program.Servers) bool { return s.MongoDB })
	options := mongodb.Options{
		Flavor: o.Flavor, Version: o.Version, Port: o.Port, Bind: bind, Packages: o.Repository.Packages, Unit: o.Unit, Database: s.database(),
		More:       s.moreDatabases(),
		Bundle:     o.Bundle != "" || s.Inventory.Packages.Bundle != "",
		Repository: apt.Repository{Name: "mongodb", URL: o.Repository.URL, Suite: o.Repository.Suite, Component: o.Repository.Component},
	}
	if r := o.Repository; r.KeyFile != "" || r.KeyURL != "" {
		options.Key = func(ctx context.Context) ([]byte, error) { return apt.FetchKey(ctx, r.KeyFile, r.KeyURL) }
	}
	return options, err
}

// database returns the archive's database, from the settings for all hosts; "": the default.
func (s *Site) database() string {
	for _, p := range s.Programs {
		if !p.Servers.MongoDB {
			continue
		}
		given, err := s.common(p)
		if err != nil {
			return "" // reported where the settings are made
		}
		read, err := given.Read(p)
		if err != nil {
			return ""
		}
		return read.Database
	}
	return ""
}

// moreDatabases returns the databases of programs that keep all of their data there.
func (s *Site) moreDatabases() []string {
	var names []string
	for _, p := range s.Programs {
		for _, h := range s.with(p) {
			on := s.On(h, p)
			if !on.Servers.MongoDB || on.Servers.Store != "mongodb" {
				continue
			}
			given, err := s.given(h, p)
			if err != nil {
				continue // reported where the settings are made
			}
			// The error is ignored: roles fill in what is missing, and faults are reported there.
			if read, _ := given.Read(on); read.Database != "" && !slices.Contains(names, read.Database) {
				names = append(names, read.Database)
			}
		}
	}
	return names
}

// MongoDBSteps returns the steps that install the server on the host that has the role, and
// prove it. Its packages come from a bundle of their own, if there is one.
func (s *Site) MongoDBSteps(h inventory.Host) ([]step.Step, error) {
	packages, err := s.packages(source{h.Name, cmp.Or(s.Inventory.MongoDB.Bundle, s.Inventory.Packages.Bundle)})
	if err != nil {
		return nil, err
	}
	return s.mongo.Steps(packages), nil
}

// MongoDBPreflight returns the proofs that its host is fit for it.
func (s *Site) MongoDBPreflight() []step.Step { return s.mongo.Preflight() }

// Archived reports whether a program on a host has an archive.
func (s *Site) Archived(h inventory.Host, p program.Program) bool {
	given, err := s.given(h, p)
	inv := s.Inventory
	return err == nil && p.Servers.MongoDB && (given.Has("mongodb.uri") || inv.MongoDB.External() || len(inv.With(inventory.RoleMongoDB)) > 0)
}

// unknown stands for a password that is made later in a run, or that a plan cannot know.
const unknown = "not-made-yet"

// archive returns the URI of the archive for a host, "" for none, and where it comes from.
// early accepts one whose password has not been made yet.
func (s *Site) archive(ctx context.Context, h inventory.Host, early bool) (uri, from string, err error) {
	m := s.Inventory.MongoDB
	switch with := s.Inventory.With(inventory.RoleMongoDB); {
	case m.URI != "":
		return m.URI, s.Inventory.From() + ", mongodb.uri", nil
	case m.URIEnv != "":
		if uri = s.Getenv(m.URIEnv); uri == "" {
			return "", "", fmt.Errorf("mongodb.uri_env: the variable %s is not set", m.URIEnv)
		}
		s.learn(uri)
		return uri, "the variable " + m.URIEnv, nil
	case len(with) > 0:
		uri, err = s.mongoURI(ctx, h, with[0], early)
		return uri, "the role mongodb of host " + with[0].Name, err
	}
	return "", "", nil
}

// uris are the URIs that the host of the archive has given.
type uris struct {
	mu   sync.Mutex
	have map[string]string
}

func (s *Site) mongoURI(ctx context.Context, h, with inventory.Host, early bool) (string, error) {
	local := h.Name == with.Name
	if s.Inventory.MongoDB.Flavor == mongodb.FerretDB {
		return s.mongo.URI(ctx, nil, local, s.reached(with))
	}
	s.uris.mu.Lock()
	defer s.uris.mu.Unlock()
	if uri := s.uris.have[h.Name]; uri != "" {
		return uri, nil
	}
	if early && s.Offline {
		return s.unknownURI(local, with), nil
	}
	var uri string
	err := s.Visit(ctx, with, func(at host.Host) (err error) {
		uri, err = s.mongo.URI(ctx, at, local, s.reached(with))
		return err
	})
	switch {
	case errors.Is(err, secret.ErrNoPassword) && early:
		return s.unknownURI(local, with), nil
	case errors.Is(err, secret.ErrNoPassword):
		return "", fmt.Errorf("%w on %s\nhint: go tool mage install:mongodb", err, with.Name)
	case err != nil:
		return "", err
	}
	s.learn(uri)
	if s.uris.have == nil {
		s.uris.have = map[string]string{}
	}
	s.uris.have[h.Name] = uri
	return uri, nil
}

func (s *Site) unknownURI(local bool, with inventory.Host) string {
	return "mongodb://" + mongodb.DaemonUser + ":" + unknown + "@" + s.mongo.Address(local, s.reached(with)) + "/"
}

// learn makes the Masker hide the password of a URI.
func (s *Site) learn(uri string) {
	u, err := url.Parse(uri)
	if err != nil || u.User == nil { // the form with several hosts, or a malformed one
		s.Masker.Add(uri)
		return
	}
	if password, ok := u.User.Password(); ok {
		s.Masker.Add(password)
	}
}
