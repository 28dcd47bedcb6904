package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// EntryOf returns the entry that the registry has for the spec of e, or e if it has none.
func (r *Registry) EntryOf(ctx context.Context, e Entry) (Entry, error) {
	have, err := r.servers.Admin.HGetAll(ctx, Key).Result()
	if err != nil {
		return e, err
	}
	return matchEntry(have, e)
}

// Registered returns the entry that the registry has of a filter.
func (r *Registry) Registered(ctx context.Context, spec engine.Spec) (Entry, error) {
	text, err := r.servers.Admin.HGet(ctx, Key, spec.Name).Result()
	if err == redis.Nil {
		return Entry{}, &engine.UnknownFilterError{Ref: spec.Name}
	} else if err != nil {
		return Entry{}, fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	e, err := Decode(spec.Name, text)
	if err == nil && e.Spec != spec {
		err = fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", spec.Name, engine.ErrConflict)
	}
	return e, err
}

// Supersede replaces old with e in the registry. It returns the entry that the registry has
// then: e, or what another daemon has put there meanwhile; and the version from which daemons
// have it.
func (r *Registry) Supersede(ctx context.Context, old, e Entry, tomb string) (found Entry, version int64, err error) {
	text, err := e.Encode()
	if err != nil {
		return e, 0, err
	}
	oldTomb, err := TombOf(old)
	if err != nil {
		return e, 0, err
	}
	var counted *redis.IntCmd
	err = r.change(ctx, func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error {
		if have[e.Spec.Name] == "" {
			return &engine.UnknownFilterError{Ref: e.Spec.Name}
		}
		its, err := Decode(e.Spec.Name, have[e.Spec.Name])
		switch found = its; {
		case err != nil:
			return err
		case its.Spec != e.Spec:
			return fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", e.Spec.Name, engine.ErrConflict)
		case its != old:
			return nil
		case tombs[tomb] != r.self:
			return fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.Spec.Name, engine.ErrUnavailable)
		}
		found = e
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, Key, e.Spec.Name, text, FormatField, format)
			p.HDel(ctx, TombstonesKey, tomb)
			p.HSet(ctx, TombstonesKey, oldTomb, Dropped)
			counted = p.Incr(ctx, versionKey)
		})
	})
	if err != nil || found != e {
		if err == nil {
			version, err = r.Version(ctx)
		}
		return found, version, err
	}
	return found, counted.Val(), nil
}

// Register puts a filter into the registry, in place of its tombstone, and returns the entry
// that it has there: e, or that of another daemon that was quicker.
func (r *Registry) Register(ctx context.Context, e Entry, tomb string) (Entry, error) {
	text, err := e.Encode()
	if err != nil {
		return e, err
	}
	var found Entry
	err = r.change(ctx, func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error {
		if found, err = matchEntry(have, e); err != nil || found != e {
			return err
		}
		if tombs[tomb] != r.self {
			return fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.Spec.Name, engine.ErrUnavailable)
		}
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, Key, e.Spec.Name, text, FormatField, format)
			p.HDel(ctx, TombstonesKey, tomb)
		})
	})
	return found, err
}

// change lets the function change look at the registry and say, by calling commit, what to
// change if nobody else has changed the registry meanwhile.
func (r *Registry) change(ctx context.Context, change func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error) (err error) {
	for range 10 { // others may change the registry meanwhile
		err = r.servers.Admin.Watch(ctx, func(tx *redis.Tx) error {
			have, err := tx.HGetAll(ctx, Key).Result()
			if err != nil {
				return err
			}
			tombs, err := tx.HGetAll(ctx, TombstonesKey).Result()
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
		}, Key, TombstonesKey)
		if !errors.Is(err, redis.TxFailedErr) {
			break
		}
	}
	return err
}

// Unregister takes an entry out of the registry and leaves its keys to the cleaner. It does
// nothing if the registry no longer has the entry. It returns the version from which daemons know
// that.
func (r *Registry) Unregister(ctx context.Context, e Entry) (version int64, err error) {
	tomb, err := TombOf(e)
	if err != nil {
		return 0, err
	}
	var counted *redis.IntCmd
	err = r.change(ctx, func(have, _ map[string]string, commit func(func(redis.Pipeliner)) error) error {
		its, err := Decode(e.Spec.Name, have[e.Spec.Name])
		if have[e.Spec.Name] == "" || err == nil && its != e {
			return nil
		}
		if err != nil {
			return err
		}
		return commit(func(p redis.Pipeliner) {
			p.HDel(ctx, Key, e.Spec.Name)
			p.HSet(ctx, TombstonesKey, tomb, Dropped)
			counted = p.Incr(ctx, versionKey)
		})
	})
	if err != nil || counted == nil {
		return 0, err
	}
	return counted.Val(), nil
}

// matchEntry returns the entry for the spec of e, given those that exist: an equal one of them,
// or e.
func matchEntry(have map[string]string, e Entry) (Entry, error) {
	spec := e.Spec
	for name, other := range have {
		if name == FormatField {
			continue
		}
		its, err := Decode(name, other)
		switch {
		case err != nil && (name == spec.Name || spec.ID != 0 && idOf(other) == spec.ID):
			return e, fmt.Errorf("filter %s, id %d: %w: %w", spec.Name, spec.ID, engine.ErrConflict, err)
		case err != nil: // in quarantine
		case its.Spec == spec:
			return its, nil
		case its.Spec.Name == spec.Name || its.Spec.ID == spec.ID:
			return e, fmt.Errorf("filter %s, id %d: redis has %s, id %d: %w", spec.Name, spec.ID, its.Spec.Name, its.Spec.ID, engine.ErrConflict)
		}
	}
	return e, nil
}
