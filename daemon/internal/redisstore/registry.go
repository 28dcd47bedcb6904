package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

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

// registryIDKey is a string that tells a registry from one that was begun after it was lost:
// what the new one lacks was not dropped. It is in the registry's slot of a cluster.
const registryIDKey = "urifilter:registry:{" + registryKey + "}"

// readRegistry reads all fields of the registry, and its id, at one moment. It has none if
// it was lost, or if only earlier versions have written to it.
func (s *Store) readRegistry(ctx context.Context) (all map[string]string, id string, err error) {
	var fields *redis.MapStringStringCmd
	var got *redis.StringCmd
	_, err = s.admin.TxPipelined(ctx, func(p redis.Pipeliner) error {
		fields, got = p.HGetAll(ctx, registryKey), p.Get(ctx, registryIDKey)
		return nil
	})
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	if err != nil {
		return nil, "", err
	}
	return fields.Val(), got.Val(), nil
}

// sameRegistry tells whether an id is that of the registry that was last resynced.
func (s *Store) sameRegistry(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id != "" && s.registryID == id
}

// Changes implements engine.Store.
func (s *Store) Changes() <-chan engine.Change { return s.changes }

// follow compares the registry with the filters here.
func (s *Store) follow(ctx context.Context, epoch uint64) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	version, err := s.admin.Get(ctx, versionKey).Result() // before what it is of
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	all, id, err := s.readRegistry(ctx)
	if err != nil {
		return err
	}
	if all[formatField] == "" || !s.sameRegistry(id) {
		return fmt.Errorf("key %s: %w", registryKey, errLost)
	}
	delete(all, formatField)
	if err := s.followQuarantine(ctx, all); err != nil {
		return err
	}
	for _, f := range s.all() {
		mine := f.base().entry
		text, ok := all[mine.spec.Name]
		if ok {
			if e, err := decodeEntry(mine.spec.Name, text); err != nil || e == mine {
				delete(all, mine.spec.Name)
				continue
			}
		}
		if s.sync.epoch.Load() != epoch {
			return nil // what was read may be of a Redis that is to be resynced
		}
		if !ok {
			s.forget(f)
		}
	}
	for name, text := range all {
		if err := s.take(ctx, name, text); err != nil {
			return err
		}
	}
	return s.noteFollowed(ctx, version)
}

// take serves the filter of an entry that is new in the registry, in the place of the one of
// its name, if there is one.
func (s *Store) take(ctx context.Context, name, text string) error {
	f, lost, err := s.load(ctx, name, text)
	if asDamaged(err) {
		if q, known := s.quarantine(name, text, err); !known {
			return s.send(ctx, engine.Change{Spec: engine.Spec{ID: q.ID, Name: name}, Bad: &q})
		}
		return nil
	}
	if err != nil {
		return err
	}
	if lost {
		if gone, err := s.dropped(ctx, f.base().entry); err != nil || gone {
			return errors.Join(err, closeFilter(f)) // dropped or cleared in this moment; poll comes again
		}
	}
	change := engine.Change{Spec: f.base().spec, Set: f}
	if was := s.swap(f); was != nil {
		change.Gone = was
		if err := closeFilter(was); err != nil {
			s.log.Warn("mirror of a filter that was replaced", "filter", name, "err", err)
		}
	}
	if err := s.send(ctx, change); err != nil {
		return err
	}
	if lost {
		return fmt.Errorf("filter %s: %w", name, errLost)
	}
	return nil
}

var _ engine.Shared = (*Store)(nil)

// Holds implements engine.Shared.
func (s *Store) Holds(ctx context.Context, spec engine.Spec) (bool, error) {
	if _, err := s.sync.check(); err != nil {
		return true, err
	}
	have, id, err := s.readRegistry(ctx)
	if err != nil {
		return true, fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	if !s.sameRegistry(id) {
		return true, nil // lost, as poll will find
	}
	its, err := decodeEntry(spec.Name, have[spec.Name])
	if have[spec.Name] == "" || err == nil && its.spec != spec {
		s.pollSoon() // which forgets it
		return false, nil
	}
	return true, nil
}

// forget ends a filter that another daemon has dropped.
func (s *Store) forget(f filter) {
	spec := f.base().spec
	if err := s.discard(f); err != nil {
		s.log.Warn("mirror of a dropped filter", "filter", spec.Name, "err", err)
	}
	_ = s.send(context.Background(), engine.Change{Spec: spec, Gone: f})
}

// discard ends a filter here.
func (s *Store) discard(f filter) error {
	name := f.base().spec.Name
	s.mu.Lock()
	if s.sets[name] == f {
		delete(s.sets, name)
	}
	s.mu.Unlock()
	return closeFilter(f)
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
