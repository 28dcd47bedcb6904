package provision

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mongodb"
	"github.com/cr-clawer/urifilter/provision/step"
)

// mongoOptions are those of the host that has the role.
func (t *Toolkit) mongoOptions(h inventory.Host) (mongodb.Options, error) {
	o := t.inventory.MongoDB
	bind, err := t.bind("mongodb.bind", h, o.Bind)
	options := mongodb.Options{
		Flavor: o.Flavor, Version: o.Version, Port: o.Port, Bind: bind, Packages: o.Repository.Packages, Unit: o.Unit, Database: t.database(),
		Bundle:     o.Bundle != "" || t.inventory.Packages.Bundle != "",
		Repository: apt.Repository{Name: "mongodb", URL: o.Repository.URL, Suite: o.Repository.Suite, Component: o.Repository.Component},
	}
	if r := o.Repository; r.KeyFile != "" || r.KeyURL != "" {
		options.Key = func(ctx context.Context) ([]byte, error) { return apt.FetchKey(ctx, r.KeyFile, r.KeyURL) }
	}
	return options, err
}

// database is the archive's, as the settings for all hosts name it; "" is the default.
func (t *Toolkit) database() string {
	v, err := t.common()
	if err != nil {
		return "" // told where the settings are made
	}
	c, err := v.Config()
	if err != nil {
		return ""
	}
	return c.MongoDB.Database
}

func (r *run) mongodbSteps(m *machine) ([]step.Step, error) {
	packages, err := m.mongoPackages()
	if err != nil {
		return nil, err
	}
	return r.mongo.Steps(packages), nil
}

// mongoPackages come from a bundle of their own, if there is one.
func (m *machine) mongoPackages() (*apt.System, error) {
	path := m.run.inventory.MongoDB.Bundle
	if path == "" {
		return m.packages()
	}
	return m.run.system(path)
}

// unknown stands for a password that is made later in a run, or that a plan cannot know.
const unknown = "not-made-yet"

// archive is the URI of the archive for a host, "" for none, and where it comes from.
// early takes one whose password has not been made yet.
func (r *run) archive(ctx context.Context, h inventory.Host, early bool) (uri, from string, err error) {
	m := r.inventory.MongoDB
	switch with := r.inventory.With(inventory.RoleMongoDB); {
	case m.URI != "":
		return m.URI, r.inventory.From() + ", mongodb.uri", nil
	case m.URIEnv != "":
		if uri = r.o.Getenv(m.URIEnv); uri == "" {
			return "", "", fmt.Errorf("mongodb.uri_env: the variable %s is not set", m.URIEnv)
		}
		r.learn(uri)
		return uri, "the variable " + m.URIEnv, nil
	case len(with) > 0:
		uri, err = r.mongoURI(ctx, h, with[0], early)
		return uri, "the role mongodb of host " + with[0].Name, err
	}
	return "", "", nil
}

// uris are those that the host of the archive has told.
type uris struct {
	mu   sync.Mutex
	have map[string]string
}

func (r *run) mongoURI(ctx context.Context, h, with inventory.Host, early bool) (string, error) {
	local := h.Name == with.Name
	if r.inventory.MongoDB.Flavor == mongodb.FerretDB {
		return r.mongo.URI(ctx, nil, local, with.Address)
	}
	r.uris.mu.Lock()
	defer r.uris.mu.Unlock()
	if uri := r.uris.have[h.Name]; uri != "" {
		return uri, nil
	}
	if early && r.offline {
		return r.unknownURI(local, with), nil
	}
	var uri string
	err := r.visit(ctx, with, func(at host.Host) (err error) {
		uri, err = r.mongo.URI(ctx, at, local, with.Address)
		return err
	})
	switch {
	case errors.Is(err, mongodb.ErrNoPassword) && early:
		return r.unknownURI(local, with), nil
	case errors.Is(err, mongodb.ErrNoPassword):
		return "", fmt.Errorf("%w on %s\nhint: go tool mage install:mongodb", err, with.Name)
	case err != nil:
		return "", err
	}
	r.learn(uri)
	if r.uris.have == nil {
		r.uris.have = map[string]string{}
	}
	r.uris.have[h.Name] = uri
	return uri, nil
}

func (r *run) unknownURI(local bool, with inventory.Host) string {
	return "mongodb://urifilter:" + unknown + "@" + r.mongo.Address(local, with.Address) + "/"
}

// learn keeps the password of a URI out of what is shown.
func (r *run) learn(uri string) {
	u, err := url.Parse(uri)
	if err != nil || u.User == nil { // the form with several hosts, or a malformed one
		r.masker.Add(uri)
		return
	}
	if password, ok := u.User.Password(); ok {
		r.masker.Add(password)
	}
}
