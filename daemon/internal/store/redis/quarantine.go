package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// A filter that is served goes into quarantine when a resync finds a key of it that is another program's, or within
// a second after a batch has met one of another type. It
// keeps its mirror, which may be all that is left of it, and refuses batches; the other filters are resynced. When
// the key is put right all daemons resync once more, and the filter is served again.

// damage returns err, which a filter met, as one that [shared.IsDamaged] recognizes if a key of the filter has
// another type.
func damage(e registry.Entry, err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") && !shared.IsDamaged(err) {
		return shared.Damaged(registry.Foreign(registry.KeysOf(e) + "...}"))
	}
	return err
}

// each calls do for all filters but the bad ones. Those that turn out to be damaged go into quarantine, and are
// bad from now on; any other error ends it.
func (s *Store) each(bad map[base.Filter]bool, do func(f base.Filter) error) error {
	for _, f := range s.all() {
		if bad[f] {
			continue
		}
		e := f.Base().Entry
		err := damage(e, do(f))
		switch {
		case shared.IsDamaged(err):
			bad[f] = true
			text, _ := e.Encode() // if an earlier version wrote another text, follow mends that
			s.confine(f, text, err)
		case err != nil:
			return fmt.Errorf("filter %s: %w", e.Spec.Name, err)
		}
	}
	return nil
}

// damagedKey is the prefix of the key of the filters that a daemon has not put back in an incident.
const damagedKey = "urifilter:damaged:"

// tellBad tells the other daemons which filters are bad here: they do not have what is known of them here.
func (s *Store) tellBad(ctx context.Context, in string, bad map[base.Filter]bool) error {
	if len(bad) == 0 {
		return nil
	}
	_, err := s.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for f := range bad {
			servers.Always(ctx, p, "sadd", damagedKey+in, registry.KeysOf(f.Base().Entry))
		}
		p.Expire(ctx, damagedKey+in, members.AnnouncedTTL)
		return nil
	})
	return err
}

// hearBad makes bad the filters that were so at another daemon, even if the key that it found is gone: the next resync,
// once a second, has everybody put them back.
func (s *Store) hearBad(ctx context.Context, in string, bad map[base.Filter]bool) error {
	there, err := s.servers.Admin.SMembersMap(ctx, damagedKey+in).Result()
	if err != nil {
		return err
	}
	return s.each(bad, func(f base.Filter) error {
		if _, is := there[registry.KeysOf(f.Base().Entry)]; is {
			return shared.Damaged(errors.New("another daemon that shares this redis has found a key of it that holds data of another program"))
		}
		return nil
	})
}

// bad returns the filters that are served no more, but have not ended.
func (s *Store) bad() map[base.Filter]bool {
	bad := map[base.Filter]bool{}
	for _, f := range s.all() {
		if f.Base().Bad.Load() != nil {
			bad[f] = true
		}
	}
	return bad
}

// confine puts a filter into quarantine. text is its entry.
func (s *Store) confine(f base.Filter, text string, cause error) {
	spec := f.Base().Spec
	q, known := s.registry.Confine(spec.Name, text, cause)
	f.Base().Bad.Store(&q)
	if !known {
		s.feed.Send(engine.Change{Spec: spec, Gone: f, Bad: &q})
	}
}

// tryBad returns insync.ErrLost if a filter is in quarantine whose keys are in order again. One that is suspect goes
// into quarantine if they are not.
func (s *Store) tryBad(ctx context.Context, f base.Filter, text string) error {
	k := f.Base()
	served := k.Bad.Load() == nil
	if served && !k.Suspect.Swap(false) || k.Enter() != nil {
		return nil
	}
	defer k.Use.RUnlock()
	if served { // Load learns what Redis has
		s.state.Flight.RLock()
		defer s.state.Flight.RUnlock()
		if _, err := s.state.Check(); err != nil {
			return nil // the resync looks
		}
	}
	_, err := f.Load(ctx)
	switch err = damage(k.Entry, err); {
	case shared.IsDamaged(err):
		s.confine(f, text, err)
		return nil
	case served:
		return nil // the next batch that meets it says so again
	case err == nil:
		err = insync.ErrLost
	}
	return fmt.Errorf("filter %s: %w", k.Spec.Name, err)
}

// release serves the filters in quarantine that were resynced with the others.
func (s *Store) release(bad map[base.Filter]bool) {
	for _, f := range s.all() {
		k := f.Base()
		q := k.Bad.Load()
		if q == nil || bad[f] {
			continue
		}
		k.Bad.Store(nil)
		s.registry.Bad.Remove(*q)
		s.feed.Send(engine.Change{Spec: k.Spec, Mended: q})
		s.feed.Send(engine.Change{Spec: k.Spec, Set: f})
	}
}
