package provision

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/bitmap"
	"github.com/cr-clawer/urifilter/provision/environment"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/mongodb"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
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
	uris     uris
	offline  bool // no host is asked
	bundles  map[string]*apt.Bundle
	turn     chan struct{} // of the host that makes bit-maps
}

func (t *Toolkit) newRun() (*run, error) {
	r := &run{Toolkit: t, at: time.Now().UTC().Truncate(time.Second), machines: map[string]*machine{}, binaries: map[string]*release.Binaries{}, turn: make(chan struct{}, 1)}
	if with := t.inventory.With(inventory.RoleRedis); len(with) > 0 {
		options, err := t.redisOptions(with[0])
		if err != nil {
			return nil, err
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

// machine is one host during a run: what its steps share.
type machine struct {
	run      *run
	host     inventory.Host
	system   *apt.System
	ledger   *ledger
	release  *release.Deployment
	settings *settings.Files
	health   *service.Health
	daemon   *service.Daemon
	units    *service.Units
	cli      bitmap.CLI
	facts    func(context.Context, host.Host) (host.Facts, error)
	target   string // the release to roll back to
}

// machine is that of a host, the same for all phases.
func (r *run) machine(h inventory.Host) *machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[h.Name]; m != nil {
		return m
	}
	inv := r.inventory
	folder := release.At(release.Root)
	m := &machine{run: r, host: h, ledger: &ledger{}, facts: once(host.FactsOf)}
	m.release = &release.Deployment{Folder: folder, Binary: m.binary, At: r.at, By: whoami(), Keep: inv.Release.Keep}
	m.settings = &settings.Files{
		Values: func(ctx context.Context) (settings.Values, error) { return r.values(ctx, h, r.o.DryRun) },
		Tokens: r.tokens, Group: inv.Service.Group, Dir: settings.Dir,
	}
	m.health = &service.Health{Config: onHost, Token: m.token, Program: folder.Program(), Timeout: inv.Fleet.HealthTimeout}
	m.daemon = &service.Daemon{
		Health: m.health, Program: folder.Program(), Pending: m.ledger.why,
		Read: []string{settings.Path, settings.Dir + "/urifilter.env", redis.PasswordPath},
	}
	m.units = &service.Units{
		Program: func() string { return folder.ProgramOf(m.release.ID()) }, Config: settings.Path,
		User: inv.Service.User, Group: inv.Service.Group, MemoryMax: inv.Service.MemoryMax, OpenFiles: inv.Service.OpenFiles,
		Ahead: func() bool {
			again, _ := m.ledger.why()
			return r.o.DryRun && again != ""
		},
		Wanted: func(ctx context.Context) (configs.Config, error) {
			values, err := r.values(ctx, h, true)
			if err != nil {
				return configs.Config{}, err
			}
			return values.Config()
		},
	}
	m.cli = bitmap.CLI{Program: folder.Program(), Config: settings.Path, TokenFile: environment.TokenPath(""), User: inv.Service.User, Shared: m.shares(), Turn: r.turn}
	r.machines[h.Name] = m
	return m
}

// packages is how they get on the host.
func (m *machine) packages() (*apt.System, error) {
	if m.system != nil {
		return m.system, nil
	}
	var err error
	m.system, err = m.run.system(m.run.inventory.Packages.Bundle)
	return m.system, err
}

// once asks a host once a run.
func once(ask func(context.Context, host.Host) (host.Facts, error)) func(context.Context, host.Host) (host.Facts, error) {
	var mu sync.Mutex
	var have *host.Facts
	return func(ctx context.Context, h host.Host) (host.Facts, error) {
		mu.Lock()
		defer mu.Unlock()
		if have != nil {
			return *have, nil
		}
		facts, err := ask(ctx, h)
		if err == nil {
			have = &facts
		}
		return facts, err
	}
}

// binary is the program for a host: given on the command line, for the host, for all, or
// built.
func (m *machine) binary(ctx context.Context, h host.Host) (release.Binary, error) {
	facts, err := m.facts(ctx, h)
	if err != nil {
		return release.Binary{}, err
	}
	if facts.Arch != "amd64" && facts.Arch != "arm64" {
		return release.Binary{}, fmt.Errorf("the host's processor is %s: the daemon is for amd64 and arm64", facts.Arch)
	}
	given, source := "", m.run.o.Build
	for _, path := range []string{m.run.o.Binary, m.host.Binary, m.run.inventory.Release.Binary} {
		if path != "" {
			given, source = path, release.Ready(path)
			break
		}
	}
	if source == nil {
		return release.Binary{}, errors.New("no program is given\nhint: -binary=PATH")
	}
	m.run.mu.Lock()
	binaries := m.run.binaries[given]
	if binaries == nil {
		binaries = release.NewBinaries(source)
		m.run.binaries[given] = binaries
	}
	m.run.mu.Unlock()
	return binaries.For(ctx, facts.Arch)
}

// onHost is what a host's daemon is told now.
func onHost(ctx context.Context, h host.Host) (configs.Config, error) {
	c, there, err := settings.OnHost(ctx, h)
	if err == nil && !there {
		return configs.Default(), nil
	}
	return c, err
}

// token is the host's own, where its daemon asks for one.
func (m *machine) token(ctx context.Context, h host.Host) (string, error) {
	token, err := environment.OperatorToken(ctx, h, settings.Dir)
	if token != "" {
		m.run.masker.Add(token)
	}
	return token, err
}

// running tells whether the daemon of a host is up.
func running(ctx context.Context, h host.Host) (bool, error) {
	s, err := service.StatusOf(ctx, h)
	return s.Running(), err
}

// filterNames are the filters of the settings that a host shall have.
func (m *machine) filterNames(ctx context.Context, _ host.Host) ([]string, error) {
	values, err := m.run.values(ctx, m.host, m.run.o.DryRun)
	if err != nil {
		return nil, err
	}
	c, err := values.Config()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range c.Specs() {
		names = append(names, s.Name)
	}
	return names, nil
}

// given are the settings that people wrote for a host.
func (m *machine) given() (settings.Values, error) {
	v, err := m.run.common()
	return v.Over(settings.Of(m.host.Settings, m.run.inventory.From()+", settings of host "+m.host.Name)), err
}

// archived tells whether a host's daemon has an archive.
func (m *machine) archived() bool {
	given, err := m.given()
	inv := m.run.inventory
	return err == nil && (given.Has("mongodb.uri") || inv.MongoDB.External() || len(inv.With(inventory.RoleMongoDB)) > 0)
}

// shares tells whether a host's daemon keeps its bit-maps in the Redis of the role.
func (m *machine) shares() bool {
	given, err := m.given()
	return err == nil && m.run.redis != nil && !given.Has("store", "redis.addrs")
}

// common are the settings that people wrote for all hosts.
func (t *Toolkit) common() (settings.Values, error) {
	var v settings.Values
	if file := t.inventory.SettingsFile; file != "" {
		var err error
		if v, err = settings.ReadFile(file); err != nil {
			return v, err
		}
	}
	return v.Over(settings.Of(t.inventory.Settings, t.inventory.From()+", settings")), nil
}

// values are the settings for a host: what people wrote, and what follows from roles.
// early takes a password of the archive that has not been made yet.
func (r *run) values(ctx context.Context, h inventory.Host, early bool) (settings.Values, error) {
	m := r.machine(h)
	v, err := m.given()
	if err != nil {
		return v, err
	}
	var failed []error
	set := func(key string, to any, from string) {
		if !v.Has(key) {
			failed = append(failed, v.Set(key, to, from))
		}
	}
	if m.shares() {
		with := r.inventory.With(inventory.RoleRedis)[0]
		from := "the role redis of host " + with.Name
		set("store", "redis", from)
		set("redis.addrs", []string{net.JoinHostPort(seen(h, with), strconv.Itoa(r.inventory.Redis.Port))}, from)
		set("redis.password_file", redis.PasswordPath, from)
	}
	if !v.Has("mongodb.uri") {
		uri, from, err := r.archive(ctx, h, early)
		failed = append(failed, err)
		if uri != "" {
			set("mongodb.uri", uri, from)
		}
	}
	if r.tokens != nil {
		set("auth.tokens_file", settings.TokensPath, "the tokens file")
	}
	return v, errors.Join(failed...)
}

// seen is the address at which a host reaches another one.
func seen(from, to inventory.Host) string {
	if from.Name == to.Name {
		return "127.0.0.1"
	}
	return to.Address
}

// redisOptions are those of the host that has the role.
func (t *Toolkit) redisOptions(h inventory.Host) (redis.Options, error) {
	o := t.inventory.Redis
	bind, err := t.bind("redis.bind", h, o.Bind)
	return redis.Options{Package: o.Package, Port: o.Port, Bind: bind, MaxMemory: o.MaxMemory, AppendFsync: o.AppendFsync, Adopt: o.Adopt}, err
}

// bind are the addresses for a server that other hosts call: those given, else the host's
// own where there are filter hosts beside it.
func (t *Toolkit) bind(key string, h inventory.Host, given []string) ([]string, error) {
	if len(given) > 0 {
		return given, nil
	}
	for _, f := range t.inventory.With(inventory.RoleFilter) {
		if f.Name == h.Name {
			continue
		}
		if ip := net.ParseIP(h.Address); ip == nil {
			return nil, fmt.Errorf("%s: host %s reaches %s by the name %s\nhint: give the IP address that it shall listen on, %s: [10.0.0.1]", key, f.Name, h.Name, h.Address, path.Base(strings.ReplaceAll(key, ".", "/")))
		}
		return []string{h.Address}, nil
	}
	return nil, nil
}

// knownPassword asks the filter hosts for the password of a Redis server that was lost: with
// the same one their daemons reach the new server, and put back what they remember.
func (r *run) knownPassword(ctx context.Context) (string, error) {
	for _, h := range r.inventory.With(inventory.RoleFilter) {
		var text string
		err := r.visit(ctx, h, func(at host.Host) error {
			file, _, err := host.ReadFile(ctx, at, redis.PasswordPath)
			text = strings.TrimSpace(file.Content)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			step.Warn(ctx, "%s was not asked for the password of a server before this one: %v", h.Name, err)
		case text != "":
			r.masker.Add(text)
			return text, nil
		}
	}
	return "", redis.ErrNoPassword
}

// redisPassword asks the Redis host, once it has one.
func (r *run) redisPassword(h inventory.Host) func(context.Context) (string, error) {
	var mu sync.Mutex
	var have string
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if have != "" {
			return have, nil
		}
		err := r.visit(ctx, h, func(at host.Host) (err error) {
			have, err = r.redis.Password(ctx, at)
			return err
		})
		if have != "" {
			r.masker.Add(have)
		}
		return have, err
	}
}
