package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// redisOptions returns the options of the host that has the role.
func (s *Site) redisOptions(h inventory.Host) (redis.Options, error) {
	o := s.Inventory.Redis
	bind, err := s.bind("redis.bind", h, o.Bind, func(p program.Servers) bool { return p.Redis })
	return redis.Options{Package: o.Package, Port: o.Port, Bind: bind, MaxMemory: o.MaxMemory, AppendFsync: o.AppendFsync, Adopt: o.Adopt}, err
}

// knownPassword asks the hosts that call Redis for the password of a server that was lost: with
// the same password, their daemons reach the new server and restore what they remember. A host that cannot be asked now
// may be the one that knows it.
func (s *Site) knownPassword(ctx context.Context) (string, error) {
	var unasked []error
	for _, p := range s.Programs {
		for _, h := range s.with(p) {
			if p = s.On(h, p); !p.Servers.Redis {
				continue
			}
			var text string
			err := s.Visit(ctx, h, func(at host.Host) error {
				file, _, err := host.ReadFile(ctx, at, PasswordPath(p))
				text = strings.TrimSpace(file.Content)
				return err
			})
			switch {
			case ctx.Err() != nil:
				return "", ctx.Err()
			case err != nil:
				unasked = append(unasked, fmt.Errorf("%s was not asked for the password of a server before this one: %w", h.Name, err))
			case text != "":
				s.Masker.Add(text)
				return text, nil
			}
		}
	}
	if unasked != nil {
		return "", fmt.Errorf("%w\nhint: with another password its daemon could not put back what it alone remembers: make the host reachable, or take it out of the inventory if it has no daemon", errors.Join(unasked...))
	}
	return "", secret.ErrNoPassword
}

// once returns a function that asks a host for its server's password, and keeps the first one.
func (s *Site) once(h inventory.Host, ask func(context.Context, host.Host) (string, error)) func(context.Context) (string, error) {
	var mu sync.Mutex
	var have string
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if have != "" {
			return have, nil
		}
		err := s.Visit(ctx, h, func(at host.Host) (err error) {
			have, err = ask(ctx, at)
			return err
		})
		if have != "" {
			s.Masker.Add(have)
		}
		return have, err
	}
}

// RedisSteps returns the steps that install the server on the host that has the role, and prove it.
func (s *Site) RedisSteps(h inventory.Host) ([]step.Step, error) {
	return s.serverSteps(h, s.redis.Steps)
}

func (s *Site) serverSteps(h inventory.Host, steps func(*apt.System) []step.Step) ([]step.Step, error) {
	packages, err := s.Packages(h)
	if err != nil {
		return nil, err
	}
	return append([]step.Step{apt.Ready()}, steps(packages)...), nil
}

// Shares reports whether a program on a host calls the Redis of the role.
func (s *Site) Shares(h inventory.Host, p program.Program) bool {
	given, err := s.given(h, p)
	elsewhere := given.Has("redis.addrs", "redis.url") || p.Servers.Store == "redis" && given.Has("store")
	return err == nil && p.Servers.Redis && s.redis != nil && !elsewhere
}

// PasswordPath is the path of the file that a program's redis.password_file names.
func PasswordPath(p program.Program) string { return p.ConfigDir() + "/redis.password" }

// PasswordFile is the step that brings the password of Redis to a host whose program
// uses it.
func (s *Site) PasswordFile(p program.Program, group string) step.Wish {
	return secret.PasswordFile("Redis", PasswordPath(p), group, s.password)
}

// ClosePlain is the step after which Redis accepts only TLS. hosts are those of the run: in
// a plan they count as done.
func (s *Site) ClosePlain(hosts []inventory.Host) step.Wish {
	return s.redis.ClosePlain(func(ctx context.Context) (string, error) { return s.plainCaller(ctx, hosts) })
}

// plainCaller describes a host that still calls Redis without TLS, "" if there is none.
func (s *Site) plainCaller(ctx context.Context, hosts []inventory.Host) (string, error) {
	for _, p := range s.Programs {
		for _, h := range s.with(p) {
			p := s.On(h, p)
			done := s.DryRun && slices.ContainsFunc(hosts, func(c inventory.Host) bool { return c.Name == h.Name })
			if done || !s.Shares(h, p) {
				continue
			}
			plain := false
			err := s.Visit(ctx, h, func(at host.Host) error {
				told, err := settings.OnHost(ctx, at, p)
				plain = told.PlainRedis
				return err
			})
			switch {
			case ctx.Err() != nil:
				return "", ctx.Err()
			case err != nil:
				return fmt.Sprintf("host %s may need it: %v", h.Name, err), nil
			case plain:
				return fmt.Sprintf("host %s calls it without TLS; go tool mage deploy -hosts=%[1]s changes that", h.Name), nil
			}
		}
	}
	return "", nil
}
