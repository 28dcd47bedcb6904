package engine

import (
	"context"
	"fmt"
	"time"
)

// Clear forgets all items of a filter in one step: it keeps its id, its name and its
// parameters, and starts empty in the next generation. Concurrent batches use either the old or
// the cleared filter, and none is refused. Daemons that share the store serve the cleared one
// before Clear returns.
//
// The archive is updated last. An error after the filter was cleared says so; a process that
// ends between the two steps updates the archive at its next start.
func (e *Engine) Clear(ctx context.Context, ref string) (*Filter, error) {
	f, err := e.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	ctx, end, err := e.begin(ctx, f.Name)
	if err != nil {
		return nil, err
	}
	defer end()
	if f, err = e.Lookup(f.Name); err != nil {
		return nil, err
	}
	var inArchive *Archived
	if f.Spec.HasBitMap() {
		if inArchive, err = e.archived(ctx, f.Name); err != nil {
			return nil, err // nothing has changed yet
		}
	}
	generation := f.Stats().Generation
	if inArchive != nil {
		generation = max(generation, inArchive.Header.Generation)
	}
	cleared := f
	err = e.store.Clear(ctx, f.Spec, newIdentity(generation+1), func(set Set) { cleared = e.replace(f, f.Spec, set) })
	if err != nil {
		return nil, err
	}
	e.log.Info("filter cleared", "filter", f.Name, "id", f.ID, "generation", cleared.Stats().Generation)
	// Another daemon may have written it back since the archive was asked; see Drop.
	if _, shared := e.store.(Shared); !shared && (inArchive == nil || inArchive.Items == 0) {
		return cleared, nil
	}
	if err := e.recordCleared(ctx, cleared); err != nil {
		return nil, fmt.Errorf("filter %s is cleared, and the archive may still have what was in it: %w", f.Name, err)
	}
	return cleared, nil
}

// recordCleared makes the archive forget what was in a filter before it was cleared.
func (e *Engine) recordCleared(ctx context.Context, cleared *Filter) error {
	bits, ok := cleared.Set.(BitMap)
	if !ok {
		return nil
	}
	a, err := e.archived(ctx, cleared.Name)
	if err != nil || a == nil || a.Items == 0 || a.Header.Generation >= bits.Header().Generation {
		return err
	}
	return e.archive.LeaveTombstone(ctx, cleared.Spec, bits.Header(), false)
}

// replace serves set in place of the set of old, as the same filter if it has the same
// parameters.
func (e *Engine) replace(old *Filter, spec Spec, set Set) *Filter {
	e.mu.Lock()
	defer e.mu.Unlock()
	if have := e.name[spec.Name]; have != nil && have.Set == set {
		return have
	}
	f := e.newFilter(spec, set)
	if old != nil && old.Spec == spec {
		f.life = old.life
	}
	e.serve(f)
	return f
}

// successorWait is how long Successor waits at most for the store's notification.
const successorWait = 5 * time.Second

// Successor returns the filter that has the name of f after the set of f is gone. It waits a
// while for it, because a store ends a set before all daemons know the next one. The error is
// that of Lookup, or wraps ErrUnavailable if this daemon does not learn whether there is one.
func (e *Engine) Successor(ctx context.Context, f *Filter) (*Filter, error) {
	limit := time.NewTimer(successorWait)
	defer limit.Stop()
	for {
		e.mu.RLock()
		changed := e.changed
		e.mu.RUnlock()
		if now, err := e.Lookup(f.Name); now != f {
			return now, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-e.stopped.Done():
			return nil, unsucceeded(f)
		case <-limit.C:
			return nil, unsucceeded(f)
		}
	}
}

func unsucceeded(f *Filter) error {
	return fmt.Errorf("filter %s: %w: another daemon has cleared or dropped it, and this one does not know yet which", f.Name, ErrUnavailable)
}
