package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// registry reads the filters' entries, without the format field.
func (s *Store) registry(ctx context.Context) (map[string]string, error) {
	all, err := s.admin.HGetAll(ctx, registryKey).Result()
	if err != nil {
		return nil, err
	}
	if f, ok := all[formatField]; len(all) > 0 && (!ok || f != format) {
		return nil, fmt.Errorf("key %s: format %q, this version knows %s\nhint: update urifilter, or give it a database of its own (redis.db)", registryKey, f, format)
	}
	delete(all, formatField)
	return all, nil
}

// Changes implements engine.Store.
func (s *Store) Changes() <-chan engine.Change { return s.changes }

// follow compares the registry with the filters here.
func (s *Store) follow(ctx context.Context, epoch uint64) error {
	all, err := s.admin.HGetAll(ctx, registryKey).Result()
	if err != nil {
		return err
	}
	if all[formatField] == "" {
		return fmt.Errorf("key %s: %w", registryKey, errLost)
	}
	delete(all, formatField)
	for _, f := range s.all() {
		mine := f.base().entry
		text, ok := all[mine.spec.Name]
		if ok {
			if e, err := decodeEntry(mine.spec.Name, text); err != nil || e == mine {
				delete(all, mine.spec.Name)
				continue
			}
		}
		if s.trust.epoch.Load() != epoch {
			return nil // what was read may be of a Redis that is to be healed
		}
		s.forget(f)
	}
	for name, text := range all {
		f, _, err := s.load(ctx, name, text)
		if err != nil {
			return err
		}
		if err := s.send(ctx, engine.Change{Spec: f.base().spec, Set: f}); err != nil {
			return err
		}
	}
	return nil
}

// forget ends a filter that another daemon has dropped.
func (s *Store) forget(f filter) {
	spec := f.base().spec
	s.mu.Lock()
	if s.sets[spec.Name] == f {
		delete(s.sets, spec.Name)
	}
	s.mu.Unlock()
	if err := closeFilter(f); err != nil {
		s.log.Warn("mirror of a dropped filter", "filter", spec.Name, "err", err)
	}
	_ = s.send(context.Background(), engine.Change{Spec: spec})
}

func (s *Store) send(ctx context.Context, change engine.Change) error {
	select {
	case s.changes <- change:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(defaultTimeout):
		return errors.New("nobody takes in changes of filters")
	}
}
