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
// parameters, the filter is that daemon's, and h is not used.
func (s *Store) Create(ctx context.Context, spec engine.Spec, h bloom.Header) (engine.Set, error) {
	if _, err := s.trust.check(); err != nil {
		return nil, err
	}
	h, err := s.register(ctx, spec, h)
	if err != nil {
		return nil, err
	}
	set, err := s.newSet(spec, h)
	if err != nil {
		return nil, err
	}
	if err := set.lay(ctx); err != nil {
		return nil, errors.Join(err, set.close())
	}
	return s.adopt(set)
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
	if have[spec.Name] != "" {
		return s.Create(ctx, spec, h) // another daemon has filled it
	}
	set, err := s.newSet(spec, h)
	if err != nil {
		return nil, err
	}
	err = set.lay(ctx)
	if err == nil {
		err = fill(ctx, set)
	}
	if err != nil {
		return nil, errors.Join(err, set.close())
	}
	registered, err := s.register(ctx, spec, h)
	switch {
	case err != nil:
		return nil, errors.Join(err, set.close())
	case registered != h: // made anew by another daemon in this moment
		return nil, errors.Join(fmt.Errorf("filter %s: %w", spec.Name, engine.ErrConflict), set.close())
	}
	return s.adopt(set)
}

// lay makes sure that all stripes are there, in place of those that a filter of this name
// left that was dropped or made in part.
func (s *set) lay(ctx context.Context) error {
	for i := range s.keys {
		if _, err := s.putStripe(ctx, i, nil, true); err != nil {
			return err
		}
	}
	return nil
}

// register puts a filter into the registry, and returns the header that it has there:
// that of another daemon which was quicker, or h.
func (s *Store) register(ctx context.Context, spec engine.Spec, h bloom.Header) (bloom.Header, error) {
	text, err := encodeEntry(spec, h)
	if err != nil {
		return h, err
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
		return h, err
	}
	_, h, err = decodeEntry(spec.Name, text)
	return h, err
}

// adopt begins to serve a set, or finds the one that poll has taken in meanwhile.
func (s *Store) adopt(set *set) (engine.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.sets[set.spec.Name]; have != nil && have.spec == set.spec {
		return have, set.close()
	}
	s.sets[set.spec.Name] = set
	return set, nil
}

// settle finds the entry that spec is to have beside those that are there.
func settle(have map[string]string, spec engine.Spec, text string) (string, error) {
	for name, other := range have {
		if name == formatField {
			continue
		}
		its, _, err := decodeEntry(name, other)
		switch {
		case err != nil:
			return "", err
		case its == spec:
			return other, nil
		case its.Name == spec.Name || its.ID == spec.ID:
			return "", fmt.Errorf("filter %s, id %d: redis has %s, id %d: %w", spec.Name, spec.ID, its.Name, its.ID, engine.ErrConflict)
		}
	}
	return text, nil
}
