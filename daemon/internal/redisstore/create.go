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
func (s *Store) Create(ctx context.Context, spec engine.Spec, b engine.Birth) (engine.Set, error) {
	e, err := newEntry(spec, b)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, e)
}

func (s *Store) create(ctx context.Context, e entry) (engine.Set, error) {
	if _, err := s.trust.check(); err != nil {
		return nil, err
	}
	e, err := s.register(ctx, e)
	if err != nil {
		return nil, err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return nil, err
	}
	if err := f.lay(ctx); err != nil {
		return nil, errors.Join(err, closeFilter(f))
	}
	return s.adopt(f)
}

// CreateFilled implements engine.Filler: the bits are in Redis before the registry names
// the filter, so no daemon ever sees a part of it. What is left by one that dies on the
// way is replaced by the next that makes a filter of this name.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	if _, err := s.trust.check(); err != nil {
		return nil, err
	}
	have, err := s.admin.HGetAll(ctx, registryKey).Result()
	if err != nil {
		return nil, err
	}
	if _, err := settle(have, spec, ""); err != nil {
		return nil, err
	}
	e := bitMapEntry(spec, h)
	if have[spec.Name] != "" {
		return s.create(ctx, e) // another daemon has filled it
	}
	set, err := s.newSet(e)
	if err != nil {
		return nil, err
	}
	err = set.lay(ctx)
	if err == nil {
		err = fill(ctx, set)
	}
	if err != nil {
		return nil, errors.Join(err, closeFilter(set))
	}
	registered, err := s.register(ctx, e)
	switch {
	case err != nil:
		return nil, errors.Join(err, closeFilter(set))
	case registered != e: // made anew by another daemon in this moment
		return nil, errors.Join(fmt.Errorf("filter %s: %w", spec.Name, engine.ErrConflict), closeFilter(set))
	}
	return s.adopt(set)
}

// register puts a filter into the registry, and returns the entry that it has there: that
// of another daemon which was quicker, or e.
func (s *Store) register(ctx context.Context, e entry) (entry, error) {
	spec := e.spec
	text, err := e.encode()
	if err != nil {
		return e, err
	}
	for range 10 { // others may change the registry meanwhile
		err = s.admin.Watch(ctx, func(tx *redis.Tx) error {
			have, err := tx.HGetAll(ctx, registryKey).Result()
			if err != nil {
				return err
			}
			if text, err = settle(have, spec, text); err != nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.HSet(ctx, registryKey, spec.Name, text, formatField, format)
				return nil
			})
			return err
		}, registryKey)
		if !errors.Is(err, redis.TxFailedErr) {
			break
		}
	}
	if err != nil {
		return e, err
	}
	return decodeEntry(spec.Name, text)
}

// adopt begins to serve a filter, or finds the one that poll has taken in meanwhile.
func (s *Store) adopt(f filter) (engine.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := f.base().spec
	if have := s.sets[spec.Name]; have != nil && have.base().spec == spec {
		return have, closeFilter(f)
	}
	s.sets[spec.Name] = f
	return f, nil
}

// settle finds the entry that spec is to have beside those that are there.
func settle(have map[string]string, spec engine.Spec, text string) (string, error) {
	for name, other := range have {
		if name == formatField {
			continue
		}
		its, err := decodeEntry(name, other)
		switch {
		case err != nil:
			return "", err
		case its.spec == spec:
			return other, nil
		case its.spec.Name == spec.Name || its.spec.ID == spec.ID:
			return "", fmt.Errorf("filter %s, id %d: redis has %s, id %d: %w", spec.Name, spec.ID, its.spec.Name, its.spec.ID, engine.ErrConflict)
		}
	}
	return text, nil
}
