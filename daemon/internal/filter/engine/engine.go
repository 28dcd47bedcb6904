// Package engine keeps the filters by name and id and passes batches to the store
// that remembers them. It holds no bits itself and does not deal with HTTP.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
)

// Filter is one named filter. It is safe for concurrent use.
type Filter struct {
	Spec
	Set
	bound  configs.Bound // that of Spec
	uris   canonical.Rule
	life   *Life
	warned *fullness
	load   *load
	room   *room
	share  *share
	memory *memory
	turns  *turns
	// recount is that of the engine.
	recount     func()
	memoryLimit uint64 // bytes of memory that a Growing set may use; 0: any number
}

// Engine holds the filters of one store. It is safe for concurrent use.
type Engine struct {
	store       Store
	archive     Archive // nil: none
	startEmpty  bool
	fixed       map[string]int // ids from the settings
	memoryLimit uint64         // see Filter
	memory      *memory
	turns       *turns
	nearMemory  bool // warnAll has warned
	log         *slog.Logger

	mu      sync.RWMutex // guards the following; the filters guard themselves
	name    map[string]*Filter
	id      map[int]*Filter
	waiting map[string]waiting // for the archive
	unmade  map[string]unmade  // by name: of the settings, for lack of space
	fresh   bool               // the store was empty, and the archive has not yet supplied everything
	asked   bool               // the archive has answered once

	quarantine []Quarantined

	following atomic.Bool // Follow runs
	catching  catching

	changing map[string]*underway // by name
	changed  chan struct{}        // closed when a filter is made, replaced or dropped

	stopped context.Context // context of changes; ended by stop
	stop    context.CancelFunc
}

// Settings say which filters an Engine should have, and where they come from.
type Settings struct {
	// Filters must exist; those that neither store nor archive has are made empty.
	Filters []Spec
	// Archive supplies what the store lacks, in Reconcile. Nil: there is none.
	Archive Archive
	// StartEmpty makes a filter that the store lacks empty if the archive cannot be
	// reached. Otherwise the filter waits, and calls for it get a *RestoringError.
	StartEmpty bool
	// FilterBytes is how much memory a filter that grows with its items may use. 0: as much as
	// MemoryBytes leaves.
	FilterBytes uint64
	// MemoryBytes is how much memory of this machine all filters may use together; 0: any
	// amount. Calls that would exceed it get ErrFull.
	MemoryBytes uint64
	// Memory, if not nil, is told from time to time how much they use, which is not on Go's heap.
	// It must not call the engine.
	Memory func(bytes uint64)
	// WorkBytes bounds the memory that batches take while they are carried out, beside that of
	// filters; a batch that needs more than is left waits for others. 0: there is no bound.
	WorkBytes uint64
	Log       *slog.Logger
}

// Life identifies a filter from its creation until it is dropped: clearing the filter does
// not end it.
type Life struct{ _ byte }

// Life distinguishes a cleared filter from one that was dropped and made again.
func (f *Filter) Life() *Life { return f.life }

// UnknownFilterError is returned for a name or id that no filter has.
type UnknownFilterError struct {
	Ref   string   // as given by the caller
	Known []string // names that exist, sorted
}

func (e *UnknownFilterError) Error() string { return fmt.Sprintf("filter %q: unknown", e.Ref) }

// Open loads all filters of the store. Missing filters of the settings are created, or
// with an archive wait for Reconcile; for lack of space, for MakeMissing. A filter that exists with other parameters is kept
// as it is, with a warning.
func Open(ctx context.Context, store Store, s Settings) (*Engine, error) {
	e := &Engine{
		store: store, archive: s.Archive, startEmpty: s.StartEmpty, log: s.Log, memoryLimit: s.FilterBytes,
		memory: &memory{limit: s.MemoryBytes, taken: s.Memory}, turns: newTurns(int64(s.WorkBytes)),
		name: map[string]*Filter{}, id: map[int]*Filter{}, waiting: map[string]waiting{}, unmade: map[string]unmade{}, fixed: map[string]int{},
		changing: map[string]*underway{}, changed: make(chan struct{}), catching: newCatching(),
	}
	for _, spec := range s.Filters {
		e.fixed[spec.Name] = spec.ID
	}
	e.stopped, e.stop = context.WithCancel(context.Background())
	held, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	for spec, set := range held {
		e.insert(spec, set)
	}
	if e.recount(); e.memory.limit > 0 && e.memory.sum() > e.memory.limit {
		e.log.Warn("filters take more memory than limits.memory_bytes leaves for them: new items are refused", "bytes", e.memory.sum(), "limit", e.memory.limit)
	}
	e.takeQuarantined()
	e.fresh = len(held)+len(e.quarantine) == 0
	for _, spec := range s.Filters {
		have := e.name[spec.Name]
		switch {
		case e.quarantined(spec.Name) != nil:
		case have != nil:
			if spec.ID == 0 {
				spec.ID = have.ID
			}
			if have.Spec != spec {
				e.warnDiffers(have.Spec, spec)
			}
		case e.archive != nil && spec.HasBitMap():
			e.waiting[spec.Name] = waiting{spec: spec}
		default:
			_, _, err := e.Create(ctx, spec)
			if errors.Is(err, ErrNoSpace) { // the others are served
				e.putOff(spec, err)
			} else if err != nil {
				return nil, fmt.Errorf("filter %s: %w", spec.Name, err)
			}
		}
	}
	return e, nil
}

// warnDiffers warns of a filter that differs from the settings. Whether it grows does not
// count: the default may have been different when it was made.
func (e *Engine) warnDiffers(made, settings Spec) {
	level := slog.LevelWarn
	if as, _ := settings.With(map[string]reflect.Value{"on_full": reflect.ValueOf(made.Bound().OnFull)}); as == made {
		level = slog.LevelInfo
	}
	e.log.Log(context.Background(), level, "filter keeps its parameters; the settings differ", "filter", made.Name,
		"differences", made.Differences(settings))
}

func (e *Engine) insert(spec Spec, set Set) *Filter {
	f := e.newFilter(spec, set)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serve(f)
	return f
}

func (e *Engine) newFilter(spec Spec, set Set) *Filter {
	bound := spec.Bound()
	return &Filter{Spec: spec, Set: set, bound: bound, uris: uris(spec), life: new(Life), warned: &fullness{}, load: newLoad(bound, set), room: &room{},
		share: &share{}, memory: e.memory, turns: e.turns, recount: e.recount, memoryLimit: e.memoryLimit}
}

// serve serves a filter, unless its set has ended: whoever ended it knows what is served now. The caller holds mu.
func (e *Engine) serve(f *Filter) {
	if Ended(f.Set) {
		return
	}
	if was := e.name[f.Name]; was != nil && e.id[was.ID] == was {
		delete(e.id, was.ID) // made again by another daemon, perhaps with another id
	}
	if was := e.name[f.Name]; was != nil && was != f {
		was.leave()
	}
	e.name[f.Name], e.id[f.ID] = f, f
	delete(e.waiting, f.Name)
	delete(e.unmade, f.Name)
	e.announceChange()
}

// remove stops serving a filter, unless another one has taken its place. The caller
// holds mu.
func (e *Engine) remove(f *Filter) {
	f.leave()
	if e.name[f.Name] == f {
		delete(e.name, f.Name)
	}
	if e.id[f.ID] == f {
		delete(e.id, f.ID)
	}
	e.announceChange()
}

func (e *Engine) announceChange() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Lookup finds a filter by its name or its id in decimal, among those that this daemon knows; see Find.
// The error is an *UnknownFilterError, a *RestoringError or a *QuarantinedError, or wraps
// ErrNoSpace for a filter of the settings that is not made yet.
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
	if err := e.quarantined(ref); err != nil {
		return nil, err
	}
	if err := e.waitingFor(ref); err != nil {
		return nil, err
	}
	if err := e.unmadeFor(ref); err != nil {
		return nil, err
	}
	return nil, &UnknownFilterError{Ref: ref, Known: slices.Sorted(maps.Keys(e.name))}
}

// Find is Lookup for callers who are told if there is no such filter: before that is said, a store
// that others share is asked whether one of them has made it meanwhile. It also returns an error
// that wraps ErrUnavailable, if the store cannot be asked.
func (e *Engine) Find(ctx context.Context, ref string) (*Filter, error) {
	f, err := e.Lookup(ref)
	if err == nil {
		return f, nil
	}
	if !errors.As(err, new(*UnknownFilterError)) {
		return nil, err
	}
	if err := e.catchUp(ctx); err != nil {
		return nil, err
	}
	return e.Lookup(ref)
}

// catchUp returns when this daemon knows what others have made, cleared and dropped so far in a store that
// they share, if it follows them.
func (e *Engine) catchUp(ctx context.Context) error {
	store, shared := e.store.(Shared)
	if !shared || !e.following.Load() {
		return nil
	}
	return e.catching.up(ctx, store.CatchUp)
}

// Filters lists all filters by id.
func (e *Engine) Filters() []*Filter {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.SortedFunc(maps.Values(e.id), func(a, b *Filter) int { return cmp.Compare(a.ID, b.ID) })
}

// Listed reports whether the settings list a filter: the next start makes it if it is not there.
func (e *Engine) Listed(name string) bool {
	_, listed := e.fixed[name]
	return listed
}

// Drop forgets a filter and all its items. Its running batches may still succeed. The
// data of a filter in quarantine are moved away instead.
func (e *Engine) Drop(ctx context.Context, name string) error {
	f, err := e.Find(ctx, name)
	if bad, ok := errors.AsType[*QuarantinedError](err); ok {
		ctx, end, err := e.begin(ctx, bad.Name)
		if err != nil {
			return err
		}
		defer end()
		return e.dropQuarantined(ctx, bad)
	}
	if err != nil {
		return err
	}
	ctx, end, err := e.begin(ctx, f.Name)
	if err != nil {
		return err
	}
	defer end()
	if f, err = e.Lookup(f.Name); err != nil {
		return err
	}
	if err := e.leaveTombstone(ctx, f); err != nil {
		return err
	}
	switch err := e.store.Drop(ctx, f.Spec); {
	case err == nil:
	case e.archive == nil, !f.HasBitMap(), errors.As(err, new(*UnknownFilterError)):
		return err
	default:
		return fmt.Errorf("filter %s: not dropped, and the archive has forgotten what it had of it: drop it again: %w", f.Name, err)
	}
	e.mu.Lock()
	e.remove(f)
	now := e.name[f.Name] // what another daemon has put in its place
	if now != nil && Ended(now.Set) {
		e.remove(now)
		now = nil
	}
	e.mu.Unlock()
	if e.Listed(f.Name) {
		e.log.Warn("filter dropped; the settings list it, so that the next start makes it again, empty", "filter", f.Name, "id", f.ID)
	} else {
		e.log.Info("filter dropped", "filter", f.Name, "id", f.ID)
	}
	if _, shared := e.store.(Shared); !shared {
		return nil
	}
	// Another daemon may have written it back since the archive was asked. One that does so later finds it dropped: see
	// NoteArchived.
	switch {
	case now == nil:
		err = e.leaveTombstone(ctx, f)
	case !now.continues(f):
		err = e.switchOff(ctx, f)
	}
	if err != nil {
		return fmt.Errorf("filter %s is dropped, and the archive may still have what was in it: %w", f.Name, err)
	}
	return nil
}

// Ready returns why batches would not be accepted now; nil if they would.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.store.Ready(ctx); err != nil {
		return err
	}
	return errors.Join(e.readyWaiting(), e.readyUnmade())
}

const (
	// catchUpEvery is the least time from one question to a shared store, whether other daemons have
	// made a filter, to the next. All that ask in between share the next one, so that callers who
	// make up names cost the store no more than that.
	catchUpEvery = 20 * time.Millisecond
	// catchUpTimeout is how long such a question may take.
	catchUpTimeout = 5 * time.Second
)

// catching has callers share the questions to a store: each waits for one that began after it came.
type catching struct {
	turn chan struct{} // is held by who asks
	last time.Time     // when the last one ended; with turn

	mu   sync.Mutex
	next *question // that has not begun; nil: nobody waits for one
}

type question struct {
	answered chan struct{}
	err      error // once it is
}

func newCatching() catching { return catching{turn: make(chan struct{}, 1)} }

func (c *catching) up(ctx context.Context, ask func(context.Context) error) error {
	c.mu.Lock()
	if c.next == nil {
		c.next = &question{answered: make(chan struct{})}
	}
	q := c.next
	c.mu.Unlock()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	select {
	case <-q.answered:
		return q.err
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(c.last.Add(catchUpEvery))):
	}
	c.mu.Lock()
	c.next = nil // it is q: only who has the turn takes one away
	c.mu.Unlock()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpTimeout) // others wait for it, too
	defer cancel()
	q.err = ask(asking)
	c.last = time.Now()
	close(q.answered)
	return q.err
}
