package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

var _ engine.Filler = (*Store)(nil)

// Create implements engine.Store. Where another daemon was quicker with the same
// parameters, the filter is that daemon's, and b is not used.
func (s *Store) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	e, err := newEntry(spec, b)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, e)
}

// create makes the filter of e, or opens the one that another daemon has made.
func (s *Store) create(ctx context.Context, e entry) (engine.Set, error) {
	if _, err := s.sync.check(); err != nil {
		return nil, err
	}
	have, err := s.entryOf(ctx, e)
	if err != nil {
		return nil, err
	}
	if have != e {
		return s.open(ctx, have)
	}
	return s.make(ctx, e, func(f filter) error { return f.lay(ctx) })
}

// CreateFilled implements engine.Filler: the bits are in Redis before the registry names
// the filter, so no daemon ever sees a part of it.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	if _, err := s.sync.check(); err != nil {
		return nil, err
	}
	e := newBitMapEntry(spec, h)
	have, err := s.entryOf(ctx, e)
	if err != nil {
		return nil, err
	}
	if have != e {
		return s.open(ctx, have) // another daemon has filled it
	}
	return s.make(ctx, e, func(f filter) error {
		if err := f.lay(ctx); err != nil {
			return err
		}
		return fill(ctx, f.(*set))
	})
}

// make makes a filter in Redis and then names it in the registry. Until then a tombstone
// sees to it that its keys do not stay if this daemon dies.
func (s *Store) make(ctx context.Context, e entry, fill func(f filter) error) (engine.Set, error) {
	f, err := s.newFilter(e)
	if err != nil {
		return nil, err
	}
	undo := func(err error) (engine.Set, error) {
		return nil, errors.Join(err, s.unmake(context.WithoutCancel(ctx), e), closeFilter(f))
	}
	tomb, err := s.beginMaking(ctx, e)
	if err != nil {
		return nil, errors.Join(err, closeFilter(f))
	}
	if err := fill(f); err != nil {
		return undo(err)
	}
	s.changing.Lock()
	registered, err := s.register(ctx, e, tomb)
	if err == nil && registered == e {
		defer s.changing.Unlock()
		return s.adopt(f)
	}
	s.changing.Unlock()
	switch {
	case err != nil:
		return undo(err)
	default: // another daemon was quicker
		if _, err := undo(nil); err != nil {
			return nil, err
		}
		return s.open(ctx, registered)
	}
}

// open is the filter of an entry of the registry.
func (s *Store) open(ctx context.Context, e entry) (engine.Set, error) {
	f, err := s.newFilter(e)
	if err != nil {
		return nil, err
	}
	lost, err := f.learn(ctx)
	if err == nil && lost {
		err = f.base().trouble(ctx, errLost)
	}
	if err != nil {
		return nil, errors.Join(err, closeFilter(f))
	}
	return s.adopt(f)
}

// entryOf is what the registry has for the spec of e, or e.
func (s *Store) entryOf(ctx context.Context, e entry) (entry, error) {
	have, err := s.admin.HGetAll(ctx, registryKey).Result()
	if err != nil {
		return e, err
	}
	return matchEntry(have, e)
}

// register puts a filter into the registry, in place of its tombstone, and returns the
// entry that it has there: that of another daemon which was quicker, or e.
func (s *Store) register(ctx context.Context, e entry, tomb string) (entry, error) {
	text, err := e.encode()
	if err != nil {
		return e, err
	}
	var found entry
	err = s.changeRegistry(ctx, func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error {
		if found, err = matchEntry(have, e); err != nil || found != e {
			return err
		}
		if tombs[tomb] != s.peers.self {
			return fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.spec.Name, engine.ErrUnavailable)
		}
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, registryKey, e.spec.Name, text, formatField, format)
			p.HDel(ctx, tombstonesKey, tomb)
		})
	})
	return found, err
}

// changeRegistry lets change look at the registry and say, by a call of its second
// argument, what is to be changed if nobody else has changed it since.
func (s *Store) changeRegistry(ctx context.Context, change func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error) (err error) {
	for range 10 { // others may change the registry meanwhile
		err = s.admin.Watch(ctx, func(tx *redis.Tx) error {
			have, err := tx.HGetAll(ctx, registryKey).Result()
			if err != nil {
				return err
			}
			tombs, err := tx.HGetAll(ctx, tombstonesKey).Result()
			if err != nil {
				return err
			}
			return change(have, tombs, func(what func(redis.Pipeliner)) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
					what(p)
					return nil
				})
				return err
			})
		}, registryKey, tombstonesKey)
		if !errors.Is(err, redis.TxFailedErr) {
			break
		}
	}
	return err
}

// adopt begins to serve a filter, or finds it where poll has taken it in meanwhile.
func (s *Store) adopt(f filter) (filter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := f.base().entry
	have := s.sets[e.spec.Name]
	if have != nil && have.base().entry == e {
		return have, closeFilter(f)
	}
	s.sets[e.spec.Name] = f
	if have != nil { // dropped by another daemon, and made again
		return f, closeFilter(have)
	}
	return f, nil
}

// matchEntry finds the entry that the spec of e is to have beside those that are there.
func matchEntry(have map[string]string, e entry) (entry, error) {
	spec := e.spec
	for name, other := range have {
		if name == formatField {
			continue
		}
		its, err := decodeEntry(name, other)
		switch {
		case err != nil && (name == spec.Name || spec.ID != 0 && idOf(other) == spec.ID):
			return e, fmt.Errorf("filter %s, id %d: %w: %w", spec.Name, spec.ID, engine.ErrConflict, err)
		case err != nil: // in quarantine
		case its.spec == spec:
			return its, nil
		case its.spec.Name == spec.Name || its.spec.ID == spec.ID:
			return e, fmt.Errorf("filter %s, id %d: redis has %s, id %d: %w", spec.Name, spec.ID, its.spec.Name, its.spec.ID, engine.ErrConflict)
		}
	}
	return e, nil
}
