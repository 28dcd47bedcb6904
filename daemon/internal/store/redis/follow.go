package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Changes implements engine.Store.
func (s *Store) Changes() <-chan engine.Change { return s.feed.Changes() }

// follow compares the registry with this daemon's filters.
func (s *Store) follow(ctx context.Context, epoch uint64) error {
	if err := s.changing.LockUntil(ctx); err != nil {
		return err
	}
	defer s.changing.Unlock()
	version, err := s.registry.Version(ctx) // read before the entries that it is of
	if err != nil {
		return err
	}
	all, id, err := s.registry.Read(ctx)
	if err != nil {
		return err
	}
	if all[registry.FormatField] == "" || !s.registry.IsCurrent(id) {
		return fmt.Errorf("key %s: %w", registry.Key, insync.ErrLost)
	}
	delete(all, registry.FormatField)
	s.followQuarantine(all)
	var errs []error
	for _, f := range s.all() {
		mine := f.Base().Entry
		text, ok := all[mine.Spec.Name]
		if ok {
			if e, err := registry.Decode(mine.Spec.Name, text); err != nil || e == mine {
				delete(all, mine.Spec.Name)
				errs = append(errs, s.tryBad(ctx, f, text))
				continue
			}
		}
		if s.state.Epoch.Load() != epoch {
			return nil // what was read may be of a Redis that must be resynced
		}
		if !ok {
			s.forget(f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := s.serveEntry(ctx, name, all[name], func() bool { return s.syncedSince(epoch) })
		if err != nil && !errors.Is(err, engine.ErrNoSpace) {
			return err
		}
		errs = append(errs, err) // nil, or there is no memory for its mirror
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.members.NoteFollowed(ctx, version)
}

// syncedSince reports whether Redis has been in sync all the time since epoch. What was read
// during a resync may lack what other daemons had not put back yet.
func (s *Store) syncedSince(epoch uint64) bool {
	now, err := s.state.Check()
	return err == nil && now == epoch
}

// CatchUp implements engine.Shared.
func (s *Store) CatchUp(ctx context.Context) error {
	epoch, err := s.state.Check()
	if err != nil {
		return err
	}
	if err := s.follow(ctx, epoch); err != nil {
		signal(s.early) // poll does what is to be done about it
		return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	return s.feed.Await(ctx)
}

// serveEntry serves the filter of an entry that is new in the registry, in place of the one of
// its name, if there is one. It does not serve it if valid, called once the filter was read,
// denies that it is whole.
func (s *Store) serveEntry(ctx context.Context, name, text string, valid func() bool) error {
	f, lost, err := s.load(ctx, name, text)
	if shared.IsDamaged(err) {
		if q, known := s.registry.Confine(name, text, err); !known {
			s.feed.Send(engine.Change{Spec: engine.Spec{ID: q.ID, Name: name}, Bad: &q})
		}
		return nil
	}
	if err != nil {
		return err
	}
	if lost {
		if gone, err := s.registry.Dropped(ctx, f.Base().Entry); err != nil || gone {
			return errors.Join(err, base.Close(f)) // dropped or cleared at this moment; poll tries again
		}
	}
	if !valid() {
		return errors.Join(insync.ErrChanged, base.Close(f)) // it is not followed; poll tries again
	}
	s.registry.Bad.Follow(s.feed, func(q engine.Quarantined) bool { return q.Name != name })
	change := engine.Change{Spec: f.Base().Spec, Set: f}
	was := s.swap(f)
	if was != nil {
		was.Base().End()
		change.Gone = was
	}
	s.feed.Send(change) // before Close, which waits for batches: others are refused since End
	if was != nil {
		if err := base.Close(was); err != nil {
			s.log.Warn("mirror of a filter that was replaced", "filter", name, "err", err)
		}
	}
	if lost {
		return fmt.Errorf("filter %s: %w", name, insync.ErrLost)
	}
	return nil
}

var _ engine.Shared = (*Store)(nil)

// Holds implements engine.Shared.
func (s *Store) Holds(ctx context.Context, spec engine.Spec) (bool, error) {
	if _, err := s.state.Check(); err != nil {
		return true, err
	}
	have, id, err := s.registry.Read(ctx)
	if err != nil {
		return true, fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	if !s.registry.IsCurrent(id) {
		return true, nil // lost, as poll will find
	}
	its, err := registry.Decode(spec.Name, have[spec.Name])
	if have[spec.Name] == "" || err == nil && its.Spec != spec {
		signal(s.early) // which forgets it
		return false, nil
	}
	return true, nil
}

// forget ends a filter that another daemon has dropped.
func (s *Store) forget(f base.Filter) {
	spec := f.Base().Spec
	f.Base().End()
	s.feed.Send(engine.Change{Spec: spec, Gone: f}) // before discard, as in serveEntry
	if err := s.discard(f); err != nil {
		s.log.Warn("mirror of a dropped filter", "filter", spec.Name, "err", err)
	}
}

// discard ends a filter in this daemon.
func (s *Store) discard(f base.Filter) error {
	name := f.Base().Spec.Name
	s.mu.Lock()
	if s.sets[name] == f {
		delete(s.sets, name)
	}
	s.mu.Unlock()
	return base.Close(f)
}

// followQuarantine reports filters that are no longer in quarantine: their entries were dropped,
// or mended. all is the registry.
func (s *Store) followQuarantine(all map[string]string) {
	s.registry.Bad.Follow(s.feed, func(q engine.Quarantined) bool {
		text, there := all[q.Name]
		return there && registry.WhereIs(q.Name, text) == q.Where
	})
}
