package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// A filter is cleared by another entry in the registry, of a later generation and with keys
// of its own, in the place of the old one, whose keys the tombstone then removes. Its id,
// name and parameters are the same. Until that one step all daemons serve the old filter.
//
// A daemon that has not yet seen the step would call items seen that were before it, so who
// clears a filter waits for the others. Each of them leaves, after it has compared its
// filters with the registry, the number of the registry's last change that it has seen.

const (
	// versionKey counts the clears that were ever made. It is in the registry's slot.
	versionKey = "urifilter:version:{" + registryKey + "}"
	// followedKey is a hash: daemon -> the version that it serves.
	followedKey = "urifilter:followed"

	followEvery = 50 * time.Millisecond
)

// Clear implements engine.Store. Where another daemon clears the filter in this moment, the
// two are one.
func (s *Store) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	if _, err := s.sync.check(); err != nil {
		return err
	}
	old, err := s.registered(ctx, spec)
	if err != nil {
		return err
	}
	b.Generation = max(b.Generation, old.gen+1)
	e, err := newEntry(spec, b)
	if err != nil {
		return err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return err
	}
	undo := func(err error) error {
		_ = s.unmake(context.WithoutCancel(ctx), e) // Redis may be away; should it have the entry, it stays
		_ = closeFilter(f)
		return f.base().trouble(ctx, err)
	}
	tomb, err := s.beginMaking(ctx, e)
	if err != nil {
		return undo(err)
	}
	if err := f.lay(ctx); err != nil {
		return undo(err)
	}
	s.changing.Lock()
	found, version, err := s.supersede(ctx, old, e, tomb)
	switch {
	case err != nil:
		s.changing.Unlock()
		return undo(err)
	case found != e:
		s.changing.Unlock()
		_ = s.unmake(ctx, e)
		_ = closeFilter(f)
		set, err := s.open(ctx, found)
		if err != nil {
			return err
		}
		serve(set)
	default:
		was := s.swap(f)
		serve(f)
		s.changing.Unlock()
		if was != nil {
			if err := closeFilter(was); err != nil {
				s.log.Warn("mirror of a cleared filter", "filter", spec.Name, "err", err)
			}
		}
	}
	return s.awaitFollowers(ctx, version)
}

// registered is the entry that the registry has of a filter.
func (s *Store) registered(ctx context.Context, spec engine.Spec) (entry, error) {
	text, err := s.admin.HGet(ctx, registryKey, spec.Name).Result()
	if err == redis.Nil {
		return entry{}, &engine.UnknownFilterError{Ref: spec.Name}
	} else if err != nil {
		return entry{}, fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	e, err := decodeEntry(spec.Name, text)
	if err == nil && e.spec != spec {
		err = fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", spec.Name, engine.ErrConflict)
	}
	return e, err
}

// supersede puts e in the place of old in the registry, and returns what is there then: e,
// or what another daemon has put there since; and the version from which daemons have it.
func (s *Store) supersede(ctx context.Context, old, e entry, tomb string) (found entry, version int64, err error) {
	text, err := e.encode()
	if err != nil {
		return e, 0, err
	}
	oldTomb, err := tombOf(old)
	if err != nil {
		return e, 0, err
	}
	var counted *redis.IntCmd
	err = s.changeRegistry(ctx, func(have, tombs map[string]string, commit func(func(redis.Pipeliner)) error) error {
		if have[e.spec.Name] == "" {
			return &engine.UnknownFilterError{Ref: e.spec.Name}
		}
		its, err := decodeEntry(e.spec.Name, have[e.spec.Name])
		switch found = its; {
		case err != nil:
			return err
		case its.spec != e.spec:
			return fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", e.spec.Name, engine.ErrConflict)
		case its != old:
			return nil
		case tombs[tomb] != s.peers.self:
			return fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.spec.Name, engine.ErrUnavailable)
		}
		found = e
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, registryKey, e.spec.Name, text, formatField, format)
			p.HDel(ctx, tombstonesKey, tomb)
			p.HSet(ctx, tombstonesKey, oldTomb, dropped)
			counted = p.Incr(ctx, versionKey)
		})
	})
	if err != nil || found != e {
		if err == nil {
			version, err = s.version(ctx)
		}
		return found, version, err
	}
	return found, counted.Val(), nil
}

// clearAgain puts the entry of a filter that is served here in the place of the one from
// before it was cleared.
func (s *Store) clearAgain(ctx context.Context, old, e entry) error {
	tomb, err := s.beginMaking(ctx, e)
	if err != nil {
		return err
	}
	_, _, err = s.supersede(ctx, old, e, tomb)
	return err // should another daemon have been quicker, poll finds its entry
}

func (s *Store) version(ctx context.Context) (int64, error) {
	n, err := s.admin.Get(ctx, versionKey).Int64()
	if err == redis.Nil {
		return 0, nil
	}
	return n, err
}

// swap serves a filter here, and returns the one that it takes the place of.
func (s *Store) swap(f filter) (was filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := f.base().spec.Name
	was = s.sets[name]
	s.sets[name] = f
	return was
}

// noteFollowed leaves the version of the registry that this daemon serves.
func (s *Store) noteFollowed(ctx context.Context, version string) error {
	if version == "" {
		version = "0"
	}
	return s.admin.HSet(ctx, followedKey, s.peers.self, version).Err()
}

// awaitFollowers waits until all daemons that live serve a version of the registry. Those of
// earlier versions of the program, which leave no number, have tombWait for it.
func (s *Store) awaitFollowers(ctx context.Context, version int64) error {
	start := time.Now()
	for {
		if err := s.beat(ctx); err != nil {
			return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
		}
		followed, err := s.admin.HGetAll(ctx, followedKey).Result()
		if err != nil {
			return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
		}
		var behind []string
		for _, id := range s.peers.alive() {
			text, tells := followed[id]
			n, _ := strconv.ParseInt(text, 10, 64)
			if tells && n < version || !tells && time.Since(start) < tombWait {
				behind = append(behind, id)
			}
		}
		if len(behind) == 0 {
			return nil
		}
		if _, err := s.sync.check(); err != nil {
			return err
		}
		if time.Since(start) > resyncMost {
			s.log.Warn("daemons that share this redis have not followed a clear", "daemons", strings.Join(behind, " "))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}
