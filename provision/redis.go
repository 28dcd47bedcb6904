package provision

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/step"
)

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
