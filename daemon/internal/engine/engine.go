// Package engine knows the filters by name and id and hands batches to the store
// that remembers them. It holds no bits itself and knows nothing of HTTP.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// firstFreeID is where ids of filters made at run time begin, so that settings can
// still give the small ones by hand.
const firstFreeID = 1000

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// Filter is one named filter. It is safe for concurrent use.
type Filter struct {
	Spec
	Set
	warned *fullness
}

// Engine holds the filters of one store. It is safe for concurrent use.
type Engine struct {
	store Store
	log   *slog.Logger

	mu   sync.RWMutex // guards the maps; the filters in them guard themselves
	name map[string]*Filter
	id   map[int]*Filter

	change sync.Mutex // held while a filter is created or dropped
}

// UnknownFilterError is returned for a name or id that no filter has.
type UnknownFilterError struct {
	Ref   string   // as asked
	Known []string // names that exist, sorted
}

func (e *UnknownFilterError) Error() string { return fmt.Sprintf("filter %q: unknown", e.Ref) }

// SpecError is returned for a filter that cannot be made as asked.
type SpecError struct {
	Field string // name, id, kind, capacity, error_rate, on_full
	Msg   string
}

func (e *SpecError) Error() string { return e.Field + ": " + e.Msg }

// Open loads what the store holds and creates those of want that are missing.
// A filter that exists with other parameters is kept as it is, with a warning.
func Open(ctx context.Context, store Store, want []Spec, log *slog.Logger) (*Engine, error) {
	e := &Engine{store: store, log: log, name: map[string]*Filter{}, id: map[int]*Filter{}}
	held, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	for spec, set := range held {
		e.insert(spec, set)
	}
	for _, spec := range want {
		have := e.name[spec.Name]
		if have == nil {
			if _, _, err := e.Create(ctx, spec); err != nil {
				return nil, fmt.Errorf("filter %s: %w", spec.Name, err)
			}
			continue
		}
		if spec.ID == 0 {
			spec.ID = have.ID
		}
		if have.Spec != spec {
			log.Warn("filter is kept as it was made; the settings differ", "filter", spec.Name,
				"made", fmt.Sprintf("%+v", have.Spec), "settings", fmt.Sprintf("%+v", spec))
		}
	}
	return e, nil
}

func (e *Engine) insert(spec Spec, set Set) *Filter {
	f := &Filter{Spec: spec, Set: set, warned: &fullness{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.name[spec.Name], e.id[spec.ID] = f, f
	return f
}

// Lookup finds a filter by its name or its id in decimal.
// The error is an *UnknownFilterError.
func (e *Engine) Lookup(ref string) (*Filter, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if f := e.name[ref]; f != nil {
		return f, nil
	}
	if id, err := strconv.Atoi(ref); err == nil {
		if f := e.id[id]; f != nil {
			return f, nil
		}
	}
	known := make([]string, 0, len(e.name))
	for name := range e.name {
		known = append(known, name)
	}
	slices.Sort(known)
	return nil, &UnknownFilterError{Ref: ref, Known: known}
}

// Filters lists all filters by id.
func (e *Engine) Filters() []*Filter {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*Filter, 0, len(e.id))
	for _, f := range e.id {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *Filter) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Create makes a filter, or finds the one that is there with the same parameters
// (created is then false). An ID of 0 takes the next free one, or that of the
// filter that is there. It returns a *SpecError for a spec that cannot be, and
// ErrConflict where name or id is taken by another.
func (e *Engine) Create(ctx context.Context, spec Spec) (f *Filter, created bool, err error) {
	if err := spec.validate(); err != nil {
		return nil, false, err
	}
	e.change.Lock()
	defer e.change.Unlock()
	if f, err := e.existing(&spec); f != nil || err != nil {
		return f, false, err
	}
	h, err := newHeader(spec)
	if err != nil {
		return nil, false, err
	}
	set, err := e.store.Create(ctx, spec, h)
	if err != nil {
		return nil, false, err
	}
	e.log.Info("filter created", "filter", spec.Name, "id", spec.ID, "capacity", spec.Capacity, "error_rate", spec.ErrorRate)
	return e.insert(spec, set), true, nil
}

// newHeader sizes the bit-map of a new filter and gives it a secret seed.
func newHeader(spec Spec) (bloom.Header, error) {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails, says its documentation
	return bloom.NewHeader(spec.Capacity, spec.ErrorRate, binary.LittleEndian.Uint64(seed[:]), time.Now())
}

// existing finds the filter that spec asks for, or settles the id of a new one.
func (e *Engine) existing(spec *Spec) (*Filter, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if f := e.name[spec.Name]; f != nil {
		if spec.ID == 0 {
			spec.ID = f.ID
		}
		if f.Spec != *spec {
			return nil, fmt.Errorf("filter %s: %w", spec.Name, ErrConflict)
		}
		return f, nil
	}
	if spec.ID == 0 {
		for spec.ID = firstFreeID; e.id[spec.ID] != nil; spec.ID++ {
		}
	} else if other := e.id[spec.ID]; other != nil {
		return nil, fmt.Errorf("filter %s: id %d is that of %s: %w", spec.Name, spec.ID, other.Name, ErrConflict)
	}
	return nil, nil
}

// Drop forgets a filter and all its items. Batches under way in it may still succeed.
func (e *Engine) Drop(ctx context.Context, name string) error {
	e.change.Lock()
	defer e.change.Unlock()
	f, err := e.Lookup(name)
	if err != nil {
		return err
	}
	if err := e.store.Drop(ctx, f.Spec); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.name, f.Name)
	delete(e.id, f.ID)
	e.mu.Unlock()
	e.log.Info("filter dropped", "filter", f.Name, "id", f.ID)
	return nil
}

// Ready says why batches would not be accepted now; nil when they would.
func (e *Engine) Ready(ctx context.Context) error { return e.store.Ready(ctx) }

func (s *Spec) validate() error {
	switch {
	case !namePattern.MatchString(s.Name):
		return &SpecError{"name", fmt.Sprintf("%q: want a letter or _, then letters, digits, _ . -, 64 at most", s.Name)}
	case s.ID < 0:
		return &SpecError{"id", fmt.Sprintf("%d: want 1 or more", s.ID)}
	case s.Kind != "bloom":
		return &SpecError{"kind", fmt.Sprintf("%q: want bloom", s.Kind)}
	case s.OnFull != "warn" && s.OnFull != "reject":
		return &SpecError{"on_full", fmt.Sprintf("%q: want warn or reject", s.OnFull)}
	}
	if err := bloom.ValidCapacity(s.Capacity, s.ErrorRate); err != nil {
		return &SpecError{"capacity", err.Error()}
	}
	return nil
}
