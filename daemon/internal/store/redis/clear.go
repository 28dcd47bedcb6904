package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
)

// A filter is cleared by replacing its entry in the registry with another one, of a later
// generation and with keys of its own; the tombstone then removes the keys of the old one. Its
// id, name and parameters stay the same. Until that one step all daemons serve the old filter.
//
// A daemon that has not yet seen the step would call items seen that were before it, so the
// daemon that clears a filter waits for the others. After a daemon has compared its filters with
// the registry, it publishes the number of the registry's last change that it has seen.

const followEvery = 50 * time.Millisecond

// Clear implements engine.Store. If another daemon clears the filter at the same moment, both
// together clear it once.
func (s *Store) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	if _, err := s.state.Check(); err != nil {
		return err
	}
	old, err := s.registry.Registered(ctx, spec)
	if err != nil {
		return err
	}
	b.Generation = max(b.Generation, old.Gen+1)
	e, err := s.newEntry(spec, b)
	if err != nil {
		return err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return err
	}
	undo := func(err error) error {
		_ = s.registry.Unmake(context.WithoutCancel(ctx), e) // Redis may be away; if it has the entry, the filter stays
		_ = base.Close(f)
		return f.Base().EngineError(ctx, err)
	}
	tomb, err := s.registry.BeginMaking(ctx, e)
	if err != nil {
		return undo(err)
	}
	if err := f.Create(ctx); err != nil {
		return undo(err)
	}
	s.changing.Lock()
	found, version, err := s.registry.Supersede(ctx, old, e, tomb)
	switch {
	case err != nil:
		s.changing.Unlock()
		return undo(err)
	case found != e:
		s.changing.Unlock()
		_ = s.registry.Unmake(ctx, e)
		_ = base.Close(f)
		set, err := s.open(ctx, found)
		if err != nil {
			return err
		}
		serve(set)
	default:
		was := s.swap(f)
		if was != nil {
			was.Base().End()
		}
		serve(f)
		s.changing.Unlock()
		if was != nil {
			if err := base.Close(was); err != nil {
				s.log.Warn("mirror of a cleared filter", "filter", spec.Name, "err", err)
			}
		}
	}
	return s.awaitFollowers(ctx, version)
}

// supersede replaces the entry from before a filter was cleared with that of the filter that is
// served here.
func (s *Store) supersede(ctx context.Context, old, e registry.Entry) error {
	tomb, err := s.registry.BeginMaking(ctx, e)
	if err != nil {
		return err
	}
	_, _, err = s.registry.Supersede(ctx, old, e, tomb)
	return err // if another daemon was quicker, poll finds its entry
}

// swap serves a filter here, and returns the one that it replaces.
func (s *Store) swap(f base.Filter) (was base.Filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := f.Base().Spec.Name
	was = s.sets[name]
	s.sets[name] = f
	return was
}

// awaitFollowers waits until all other live daemons serve a version of the registry.
func (s *Store) awaitFollowers(ctx context.Context, version int64) error {
	start := time.Now()
	for {
		if err := s.members.Beat(ctx); err != nil {
			return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
		}
		followed, err := s.members.Followed(ctx)
		if err != nil {
			return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
		}
		late := behind(followed, s.members.Alive(), version, time.Since(start))
		if len(late) == 0 {
			return nil
		}
		if _, err := s.state.Check(); err != nil {
			return err
		}
		if time.Since(start) > members.ResyncTimeout {
			s.log.Warn("daemons that share this redis have not followed a clear", "daemons", strings.Join(late, " "))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// behind returns which daemons do not serve a version of the registry yet, after they have been waited
// for; followed is what they have published. Daemons of earlier versions of the program publish
// nothing: they have tombWait for it.
func behind(followed map[string]string, daemons []string, version int64, waited time.Duration) []string {
	return slices.DeleteFunc(slices.Clone(daemons), func(id string) bool {
		text, tells := followed[id]
		n, _ := strconv.ParseInt(text, 10, 64)
		return tells && n >= version || !tells && waited >= tombWait
	})
}
