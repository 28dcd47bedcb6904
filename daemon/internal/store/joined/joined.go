// Package joined combines two stores into one: the daemon's own, and one beside it that filters
// may name. Each filter is in one of them, as its spec says; names and ids are unique across
// both.
//
// It keeps no items, and does not know what either store is.
package joined

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Main is the daemon's own store.
type Main interface {
	engine.Store
	engine.Numbers
	engine.Quarantiner
	engine.Filler
}

// Beside is a second store, which other daemons share. It never fails for good.
type Beside interface {
	engine.Store
	engine.Numbers
	engine.Shared
	engine.Quarantiner
}

// Store implements engine.Store.
type Store struct {
	main    Main
	beside  Beside // nil: there is none
	log     *slog.Logger
	changes chan engine.Change // nil: nobody else changes anything
	run     context.Context    // ends with Close
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu     sync.Mutex
	served map[string]engine.Spec // by name
	making map[string]engine.Spec // those that Create and CreateFilled are making; one of a name at a time
}

var (
	_ Main                 = (*Store)(nil)
	_ engine.Shared        = (*Store)(nil)
	_ prometheus.Collector = (*Store)(nil)
)

// Join combines main and beside into one store. If beside is nil, there is no second store, and
// filters that name one are refused.
func Join(main Main, beside Beside, log *slog.Logger) *Store {
	s := &Store{main: main, beside: beside, log: log, served: map[string]engine.Spec{}, making: map[string]engine.Spec{}}
	s.run, s.stop = context.WithCancel(context.Background())
	sources := []<-chan engine.Change{main.Changes()}
	if beside != nil {
		sources = append(sources, beside.Changes())
	}
	for _, from := range sources {
		if from == nil {
			continue
		}
		if s.changes == nil {
			s.changes = make(chan engine.Change)
		}
		s.work.Go(func() { s.forward(from) })
	}
	return s
}

// Main returns the daemon's own store.
func (s *Store) Main() Main { return s.main }

// of returns the store that a filter is in.
func (s *Store) of(spec engine.Spec) (engine.Store, error) {
	switch {
	case spec.KeptIn() == "":
		return s.main, nil
	case s.beside == nil:
		return nil, &engine.SpecError{Field: "store", Msg: fmt.Sprintf("%q: the daemon has none: its settings lack %[1]s.addr", spec.KeptIn())}
	}
	return s.beside, nil
}

// Load implements engine.Store.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	loaded, err := s.main.Load(ctx)
	if err != nil {
		return nil, err
	}
	for spec, set := range loaded {
		s.serve(spec, set)
	}
	if s.beside == nil {
		return loaded, nil
	}
	others, err := s.beside.Load(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(others, func(spec engine.Spec, set engine.Set) bool { return !s.serve(spec, set) })
	maps.Copy(loaded, others)
	return loaded, nil
}

// serve notes that a filter is served, unless its name or id is that of a filter in the other
// store: another daemon has created one that does not know of the other. It reports whether the
// filter is served. A set that has ended is left to the engine, which does not serve it.
func (s *Store) serve(spec engine.Spec, set engine.Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if engine.Ended(set) {
		return true
	}
	if other, clashes := s.clash(spec); clashes {
		s.log.Error("filter is NOT served: another store has one of its name or id", "filter", spec.Name, "id", spec.ID,
			"store", spec.KeptIn(), "other", other.Name, "other_id", other.ID, "other_store", other.KeptIn(),
			"hint", "drop one of the two, and start the daemon again")
		return false
	}
	s.served[spec.Name] = spec
	return true
}

// clash finds a filter of the other store that has the name or id of spec. The caller holds mu.
func (s *Store) clash(spec engine.Spec) (other engine.Spec, found bool) {
	for _, known := range []map[string]engine.Spec{s.served, s.making} {
		for name, other := range known {
			if (name == spec.Name || other.ID == spec.ID) && other.KeptIn() != spec.KeptIn() {
				return other, true
			}
		}
	}
	return engine.Spec{}, false
}

func (s *Store) end(spec engine.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.served[spec.Name]; ok && have.KeptIn() == spec.KeptIn() {
		delete(s.served, spec.Name)
	}
}

// forward passes on changes, except those of filters that are not served.
func (s *Store) forward(from <-chan engine.Change) {
	for {
		select {
		case <-s.run.Done():
			return
		case change := <-from:
			switch {
			case change.Set == nil && change.Gone != nil:
				s.end(change.Spec)
			case change.Set != nil && !s.serve(change.Spec, change.Set):
				if change.Gone == nil {
					continue
				}
				change.Set = nil // what it replaces is gone all the same
				s.end(change.Spec)
			}
			select {
			case s.changes <- change:
			case <-s.run.Done():
				return
			}
		}
	}
}

// Create implements engine.Store.
func (s *Store) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	store, err := s.of(spec)
	if err != nil {
		return nil, err
	}
	return s.make(spec, func() (engine.Set, error) { return store.Create(ctx, spec, b) })
}

// make lets create make a filter, unless the other store has one of its name or id. That must be known
// before: a filter that is made and not served would be served in the place of the other after a start.
func (s *Store) make(spec engine.Spec, create func() (engine.Set, error)) (engine.Set, error) {
	s.mu.Lock()
	other, clashes := s.clash(spec)
	if !clashes {
		s.making[spec.Name] = spec
	}
	s.mu.Unlock()
	if clashes {
		return nil, fmt.Errorf("filter %s, id %d: another store has %s, id %d: %w", spec.Name, spec.ID, other.Name, other.ID, engine.ErrConflict)
	}
	set, err := create()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.making, spec.Name)
	if err == nil {
		s.served[spec.Name] = spec
	}
	return set, err
}

// CreateFilled implements engine.Filler: filters with a bit-map are in the daemon's own store.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	return s.make(spec, func() (engine.Set, error) { return s.main.CreateFilled(ctx, spec, h, fill) })
}

// Drop implements engine.Store.
func (s *Store) Drop(ctx context.Context, spec engine.Spec) error {
	store, err := s.of(spec)
	if err == nil {
		err = store.Drop(ctx, spec)
	}
	if err == nil {
		s.end(spec)
	}
	return err
}

// Clear implements engine.Store.
func (s *Store) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	store, err := s.of(spec)
	if err != nil {
		return err
	}
	return store.Clear(ctx, spec, b, serve)
}

// CatchUp implements engine.Shared.
func (s *Store) CatchUp(ctx context.Context) error {
	for _, store := range []any{s.main, s.beside} {
		if shared, ok := store.(engine.Shared); ok {
			if err := shared.CatchUp(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Holds implements engine.Shared.
func (s *Store) Holds(ctx context.Context, spec engine.Spec) (bool, error) {
	store, err := s.of(spec)
	if shared, ok := store.(engine.Shared); ok && err == nil {
		return shared.Holds(ctx, spec)
	}
	return true, err
}

// TakeID implements engine.Numbers: both stores give the id.
func (s *Store) TakeID(ctx context.Context, name string, least int) (int, error) {
	for {
		id, err := s.main.TakeID(ctx, name, least)
		if err != nil || s.beside == nil {
			return id, err
		}
		if least, err = s.beside.TakeID(ctx, name, id); err != nil || least == id {
			return id, err
		}
	}
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(ctx context.Context, id int) error {
	err := s.main.NoteID(ctx, id)
	if err == nil && s.beside != nil {
		err = s.beside.NoteID(ctx, id)
	}
	return err
}

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined {
	all := s.main.Quarantined()
	if s.beside != nil {
		all = append(all, s.beside.Quarantined()...)
	}
	return all
}

// PutAway implements engine.Quarantiner.
func (s *Store) PutAway(ctx context.Context, q engine.Quarantined) (string, error) {
	if s.beside != nil {
		is := func(other engine.Quarantined) bool { return other.Name == q.Name && other.Where == q.Where }
		if slices.ContainsFunc(s.beside.Quarantined(), is) {
			return s.beside.PutAway(ctx, q)
		}
	}
	return s.main.PutAway(ctx, q)
}

// Ready implements engine.Store.
func (s *Store) Ready(ctx context.Context) error {
	err := s.main.Ready(ctx)
	if err == nil && s.beside != nil {
		err = s.beside.Ready(ctx)
	}
	return err
}

// Failed implements engine.Store.
func (s *Store) Failed() <-chan struct{} { return s.main.Failed() }

// Changes implements engine.Store.
func (s *Store) Changes() <-chan engine.Change { return s.changes }

// Close implements engine.Store.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	err := s.main.Close()
	if s.beside != nil {
		err = errors.Join(err, s.beside.Close())
	}
	return err
}

// collectors are the stores that have metrics.
func (s *Store) collectors() (all []prometheus.Collector) {
	if c, ok := s.main.(prometheus.Collector); ok {
		all = append(all, c)
	}
	if c, ok := s.beside.(prometheus.Collector); ok {
		all = append(all, c)
	}
	return all
}

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(ch)
	}
}
