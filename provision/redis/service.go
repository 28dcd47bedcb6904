package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// service enables and starts the server, and restarts one that does not run as its files say.
func (s *Server) service() step.Wish {
	return step.Running("redis: service", s.product.unit, s.restartFor, s.run)
}

// restartFor says why the running server must be restarted, "" if it need not.
func (s *Server) restartFor(ctx context.Context, h host.Host) (string, error) {
	st, err := s.inspect(ctx, h)
	if err != nil || st.include < 0 {
		return "", err
	}
	// The server may still listen where earlier files said.
	c := s.client(h, st)
	differ, err := s.differing(ctx, c, st)
	switch {
	case errors.As(err, new(errAuth)):
		return "it has another password than its files say", nil
	case errors.As(err, new(errDown)):
		return fmt.Sprintf("it does not listen on port %d", c.port), nil
	case err != nil && strings.HasPrefix(err.Error(), "LOADING"):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s: %w", s.product.name, err)
	}
	// In a plan our file is not written yet: with it, the running server is set, too.
	differ = slices.DeleteFunc(differ, func(d directive) bool { return last(st.ours, d.key) != d.value && !c.listensBy(d) })
	if len(differ) > 0 {
		return strings.Join(keysOf(differ), ", "), nil
	}
	if st.password != "" {
		open := c
		open.password = ""
		if _, err := open.send(ctx, "PING"); err == nil {
			return "it asks for no password", nil
		}
	}
	return "", nil
}

// run returns when a server that it has started is ready.
func (s *Server) run(ctx context.Context, h host.Host, verb string) error {
	st, err := s.inspect(ctx, h)
	if err != nil {
		return err
	}
	if verb == "restart" {
		// A server that never had to write an append-only file would begin empty.
		if c, err := s.reach(ctx, h, st); err == nil {
			if err := c.appendOnly(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.systemctl(ctx, h, verb); err != nil || verb == "enable" {
		return err
	}
	if err := s.client(h, st).ready(ctx); err != nil {
		return fmt.Errorf("%s: %w%s", s.product.unit, err, host.UnitLog(ctx, h, s.product.unit+".service", s.logs()))
	}
	return nil
}

func (s *Server) systemctl(ctx context.Context, h host.Host, verb string) error {
	return host.Systemctl(ctx, h, verb, s.product.unit+".service", s.logs())
}

// logs matches the files to which the server logs, besides the journal.
func (s *Server) logs() string { return "/var/log/" + s.product.group + "/*.log" }

// proof checks that filters can trust the server.
func (s *Server) proof() step.Proof {
	return step.NewProof("redis: answers", func(ctx context.Context, h host.Host) error {
		st, err := s.inspect(ctx, h)
		if err != nil {
			return err
		}
		c := s.client(h, st)
		if err := c.ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.product.name, err)
		}
		open := c
		open.password = ""
		var differ []directive
		var info map[string]string
		var differs, opens, informs error
		var asks sync.WaitGroup // at the same time: each takes a round trip
		asks.Go(func() { differ, differs = s.differing(ctx, c, st) })
		asks.Go(func() { _, opens = open.send(ctx, "PING") })
		asks.Go(func() { info, informs = c.info(ctx, "server") })
		asks.Wait()
		if differs != nil {
			return fmt.Errorf("%s: %w", s.product.name, differs)
		}
		for _, d := range differ {
			return fmt.Errorf("%s: %s is not %s, whatever its files say\nhint: something else sets it: look at the unit (systemctl cat %s) and at includes", s.product.name, d.key, d.value, s.product.unit)
		}
		if !errors.As(opens, new(errAuth)) {
			return fmt.Errorf("%s: it answers without a password", s.product.name)
		}
		if informs != nil {
			return fmt.Errorf("%s: %w", s.product.name, informs)
		}
		old(ctx, info)
		return nil
	})
}

// tested is the oldest version of Redis with which the daemon is tested.
const tested = 7

// old warns of a server that is older than those with which the daemon is tested.
func old(ctx context.Context, info map[string]string) {
	version := info["redis_version"] // of the Redis whose commands it has, for Valkey too
	var major int
	if _, err := fmt.Sscanf(version, "%d.", &major); err == nil && major < tested {
		step.Warn(ctx, "Redis %s is older than what the daemon is tested with, %d; a newer release of the system, or a repository with one, has it", version, tested)
	}
}
