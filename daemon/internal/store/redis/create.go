package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/timed"
)

var _ engine.Filler = (*Store)(nil)

// Create implements engine.Store. If another daemon was quicker with the same parameters, the
// filter is that daemon's, and b is not used.
func (s *Store) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	e, err := s.newEntry(spec, b)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, e)
}

// newEntry makes the entry of a new filter, whose mirror must fit into the memory of this
// machine.
func (s *Store) newEntry(spec engine.Spec, b engine.Identity) (registry.Entry, error) {
	e, err := registry.NewEntry(spec, b)
	if err == nil && e.HasBitMap() && !s.link.Mirrors.Bounded() {
		err = engine.FitsMemory(spec, e.Header)
	}
	return e, err
}

// create makes the filter of e, or opens the one that another daemon has made.
func (s *Store) create(ctx context.Context, e registry.Entry) (engine.Set, error) {
	if _, err := s.state.Check(); err != nil {
		return nil, err
	}
	have, err := s.registry.EntryOf(ctx, e)
	if err != nil {
		return nil, err
	}
	if have != e {
		return s.open(ctx, have)
	}
	return s.make(ctx, e, func(f base.Filter) error { return f.Create(ctx) })
}

// CreateFilled implements engine.Filler: the bits are in Redis before the registry names
// the filter, so no daemon ever sees a part of it.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	if _, err := s.state.Check(); err != nil {
		return nil, err
	}
	e := registry.NewBitMapEntry(spec, h)
	have, err := s.registry.EntryOf(ctx, e)
	if err != nil {
		return nil, err
	}
	if have != e {
		return s.open(ctx, have) // another daemon has filled it
	}
	return s.make(ctx, e, func(f base.Filter) error {
		if err := f.Create(ctx); err != nil {
			return err
		}
		return fill(ctx, unserved{f.(engine.BitMap)})
	})
}

// unserved is a filter that no daemon serves yet, because it is being created or resynced: all
// daemons read it once it is filled, and none need be told.
type unserved struct{ engine.BitMap }

// Commit implements engine.BitMap.
func (unserved) Commit(context.Context) error { return nil }

// make creates a filter in Redis and then enters it in the registry. Until then a tombstone
// ensures that its keys are removed if this daemon dies.
func (s *Store) make(ctx context.Context, e registry.Entry, fill func(f base.Filter) error) (engine.Set, error) {
	f, err := s.newFilter(e)
	if err != nil {
		return nil, err
	}
	undo := func(err error) (engine.Set, error) {
		return nil, errors.Join(f.Base().EngineError(ctx, err), s.registry.Unmake(context.WithoutCancel(ctx), e), base.Close(f))
	}
	tomb, err := s.registry.BeginMaking(ctx, e)
	if err != nil {
		return nil, errors.Join(err, base.Close(f))
	}
	if err := fill(f); err != nil {
		return undo(err)
	}
	s.changing.Lock()
	registered, err := s.registry.Register(ctx, e, tomb)
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

// open returns the filter of an entry of the registry.
func (s *Store) open(ctx context.Context, e registry.Entry) (engine.Set, error) {
	epoch, err := s.state.Check()
	if err != nil {
		return nil, err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return nil, err
	}
	lost, err := f.Load(ctx)
	if err == nil && lost {
		err = f.Base().EngineError(ctx, insync.ErrLost)
	}
	if err == nil && !s.syncedSince(epoch) {
		err = fmt.Errorf("%w: %w", engine.ErrUnavailable, insync.ErrChanged)
	}
	if err != nil {
		return nil, errors.Join(err, base.Close(f))
	}
	return s.adopt(f)
}

// adopt begins to serve a filter, or returns the one that poll has taken in meanwhile.
func (s *Store) adopt(f base.Filter) (base.Filter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := f.Base().Entry
	have := s.sets[e.Spec.Name]
	if have != nil && have.Base().Entry == e {
		return have, base.Close(f)
	}
	s.sets[e.Spec.Name] = f
	if have != nil { // dropped by another daemon, and created again
		return f, base.Close(have)
	}
	return f, nil
}

// newFilter returns the filter of an entry, without anything in it.
func (s *Store) newFilter(e registry.Entry) (base.Filter, error) {
	switch { // the registry accepts no others
	case e.Expires():
		return timed.New(s.link, e), nil
	case e.Spec.Fingerprints():
		return exact.NewFingerprints(s.link, e), nil
	case !e.HasBitMap():
		return exact.New(s.link, e), nil
	}
	set, err := bitmap.New(s.link, e)
	if err != nil {
		return nil, err // not a typed nil
	}
	if e.Header.Layers > 0 {
		return bitmap.Layered{Set: set}, nil
	}
	return set, nil
}
