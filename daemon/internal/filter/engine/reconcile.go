package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// waiting is a filter that is in the settings or the archive but not in the store.
type waiting struct {
	spec  Spec
	cause error // of the last attempt; nil: none, or still running
}

// Reconcile asks the archive once and reconciles it with the store: filters that the store
// lacks are restored or made, and those that have lost bits get them back. It returns nil
// when nothing is left to do, and otherwise the obstacle; the caller retries later. Without
// an archive there is nothing to do.
func (e *Engine) Reconcile(ctx context.Context) error {
	if e.archive == nil {
		return nil
	}
	found, err := e.archive.Newest(ctx)
	if err != nil {
		return errors.Join(err, e.reconcileAlone(ctx, err))
	}
	inArchive := map[string]*Archived{}
	names := map[string]bool{}
	for _, a := range found {
		inArchive[a.Spec.Name], names[a.Spec.Name] = &a, true
	}
	e.mu.RLock()
	for name := range e.waiting {
		names[name] = true
	}
	fresh := e.fresh
	e.mu.RUnlock()
	e.announce(inArchive, fresh)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		errs = append(errs, e.reconcileOne(ctx, name, inArchive[name], fresh))
	}
	err = errors.Join(errs...)
	if err == nil {
		e.mu.Lock()
		e.fresh = false
		e.mu.Unlock()
	}
	return err
}

// announce registers the filters that a fresh store will get from the archive as waiting,
// so that they are not unknown, and ends the time in which no filter counts as unknown.
func (e *Engine) announce(inArchive map[string]*Archived, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, w := range e.waiting {
		w.cause = nil
		e.waiting[name] = w
	}
	for name, a := range inArchive {
		if _, known := e.waiting[name]; fresh && !known && !a.Dropped && a.Err == nil && e.name[name] == nil && e.quarantined(name) == nil {
			e.waiting[name] = waiting{spec: a.Spec}
		}
	}
	e.asked = true
}

// reconcileAlone is Reconcile without an answer of the archive.
func (e *Engine) reconcileAlone(ctx context.Context, cause error) error {
	e.mu.Lock()
	var specs []Spec
	for name, w := range e.waiting {
		w.cause = cause
		e.waiting[name] = w
		specs = append(specs, w.spec)
	}
	e.mu.Unlock()
	if !e.startEmpty {
		return nil // they wait
	}
	var errs []error
	for _, spec := range specs {
		ctx, end, err := e.begin(ctx, spec.Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if e.isWaiting(spec.Name) { // it was not made meanwhile
			err = e.startWithout(ctx, spec, cause)
		}
		end()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// startWithout makes a filter empty, as the settings say not to wait for the archive.
func (e *Engine) startWithout(ctx context.Context, spec Spec, cause error) error {
	e.log.Warn("filter starts EMPTY: the archive cannot be asked, and the settings say not to wait for it; "+
		"items seen before are new again, and if the archive has this filter the two cannot be merged", "filter", spec.Name, "err", cause)
	_, err := e.makeEmpty(ctx, spec, newIdentity(1))
	return err
}

func (e *Engine) isWaiting(name string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, ok := e.waiting[name]
	return ok
}

// reconcileOne handles the cases of one filter: who has it, and how much of it.
// a is nil if the archive has no version.
func (e *Engine) reconcileOne(ctx context.Context, name string, a *Archived, fresh bool) (err error) {
	ctx, end, err := e.begin(ctx, name)
	if err != nil {
		return err
	}
	defer end()
	e.mu.RLock()
	have := e.name[name]
	w, wanted := e.waiting[name]
	bad := e.quarantined(name)
	e.mu.RUnlock()
	if bad != nil {
		return nil // stays as it is, here and in the archive, until the operator decides
	}
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("filter %s: %w", name, err)
		e.mu.Lock()
		defer e.mu.Unlock()
		if w, wanted := e.waiting[name]; wanted {
			w.cause = err
			e.waiting[name] = w
		}
	}()
	switch {
	case a != nil && a.Err != nil && wanted && e.startEmpty:
		return errors.Join(a.Err, e.startWithout(ctx, w.spec, a.Err))
	case a != nil && a.Err != nil && have == nil && !wanted && !fresh:
		e.log.Info("filter is in the archive only, in a version that cannot be used, and the settings do not name it", "filter", name, "err", a.Err)
		return nil
	case a != nil && a.Err != nil:
		return a.Err
	case have != nil && a == nil:
		return nil // written back some day
	case have != nil:
		return e.compare(ctx, have, a)
	case a == nil && wanted:
		e.log.Warn("filter starts EMPTY: neither store nor archive has it", "filter", name)
		_, err := e.makeEmpty(ctx, w.spec, newIdentity(1))
		return err
	case a == nil, a.Dropped && !wanted:
		return nil
	case !wanted && !fresh:
		e.log.Info("filter is in the archive only, and the settings do not name it; PUT or `urifilter bitmap restore` restores it", "filter", name)
		return nil
	case wanted && !sameMap(a.Spec, w.spec) && a.Items == 0:
		e.log.Warn("filter starts EMPTY: the archive has an empty one with other parameters", "filter", name)
		_, err := e.makeEmpty(ctx, w.spec, newIdentity(a.Header.Generation+1))
		return err
	default:
		if wanted && w.spec.ID == 0 {
			w.spec.ID = a.Spec.ID
		}
		if wanted && w.spec != a.Spec {
			e.warnDiffers(a.Spec, w.spec)
		}
		_, err := e.adopt(ctx, *a)
		return err
	}
}

// compare compares a filter of the store with its archived version. The archive has nothing
// that the store lacks, unless the store was rolled back.
func (e *Engine) compare(ctx context.Context, have *Filter, a *Archived) error {
	bits, ok := have.Set.(BitMap)
	if !ok {
		if a.Items > 0 {
			e.log.Warn("the archive has a bit-map under the name of this filter, which is of another kind; it is left there",
				"filter", have.Name, "kind", have.Kind)
		}
		return nil
	}
	h, st := bits.Header(), have.Stats()
	switch {
	case h.Generation > a.Header.Generation && a.Items > 0:
		// A clear was cut off before it updated the archive, whose version must not be restored.
		if err := e.archive.LeaveTombstone(ctx, have.Spec, h, false); err != nil {
			return err
		}
		e.log.Info("the archive records that the filter was cleared", "filter", have.Name, "generation", h.Generation)
		return nil
	case h.Generation > a.Header.Generation:
		return nil // the next writeback starts over
	case a.Dropped && !h.SameBits(a.Header):
		e.log.Warn("the archive says that this filter was dropped, by another daemon or by a drop that broke off; it is served from the store, and cannot be written back: drop it again",
			"filter", have.Name, "generation", h.Generation, "archived_generation", a.Header.Generation)
		return nil
	case !h.SameBits(a.Header):
		e.log.Warn("the archive has another bit-map under the name of this filter; it is served from the store, and cannot be written back",
			"filter", have.Name, "generation", h.Generation, "archived_generation", a.Header.Generation)
		return nil
	case st.Items < a.Items:
		e.log.Warn("the store has lost items of this filter that the archive has; they are restored",
			"filter", have.Name, "items_estimate", st.Items, "archived_items_estimate", a.Items)
		if err := a.Restore(ctx, bits); err != nil {
			return err
		}
	}
	bits.WrittenBack(a.Created)
	return nil
}

// adopt makes a filter from an archived version. The caller has begun its change.
func (e *Engine) adopt(ctx context.Context, a Archived) (*Filter, error) {
	if err := validate(a.Spec); err != nil {
		return nil, err
	}
	e.mu.Lock()
	bad := e.quarantined(a.Spec.Name)
	other := ""
	if bad == nil {
		other = e.reserve(a.Spec.ID, a.Spec.Name)
	}
	e.mu.Unlock()
	if bad != nil {
		return nil, bad
	}
	if other != "" {
		return nil, fmt.Errorf("id %d of the archived filter is that of %s: %w", a.Spec.ID, other, ErrConflict)
	}
	if err := e.number(ctx, &a.Spec); err != nil { // so that its id is not reused
		return nil, err
	}
	start := time.Now()
	e.log.Info("filter is being restored from the archive", "filter", a.Spec.Name, "archived", a.Created, "items_estimate", a.Items, "bytes", a.Header.Bytes())
	store, fills := e.store.(Filler)
	if !fills {
		return nil, fmt.Errorf("filter %s: the store cannot restore it: %w", a.Spec.Name, errors.ErrUnsupported)
	}
	set, err := store.CreateFilled(ctx, a.Spec, a.Header, a.Restore)
	if err != nil {
		return nil, err
	}
	bits, err := As[BitMap](a.Spec, set, ErrNoBitMap)
	if err != nil {
		return nil, err
	}
	f := e.insert(a.Spec, set)
	bits.WrittenBack(a.Created)
	e.log.Warn("filter restored from the archive; items seen after that version was written are new again", "filter", a.Spec.Name,
		"archived", a.Created, "items_estimate", f.Stats().Items, "took", time.Since(start).Round(time.Millisecond))
	return f, nil
}

// Restore sets all bits of an archived version in the filter with its name, which is
// made if the store lacks it.
func (e *Engine) Restore(ctx context.Context, a Archived) (*Filter, error) {
	e.mu.RLock()
	have := e.name[a.Spec.Name]
	e.mu.RUnlock()
	if have == nil {
		changing, end, err := e.begin(ctx, a.Spec.Name)
		if err != nil {
			return nil, err
		}
		defer end()
		ctx = changing
		e.mu.RLock()
		have = e.name[a.Spec.Name]
		e.mu.RUnlock()
		if have == nil {
			return e.adopt(ctx, a)
		}
	}
	bits, err := have.BitMap()
	if err != nil {
		return nil, err
	}
	return have, a.Restore(ctx, bits)
}

// Waiting lists the filters that wait for the archive, by name.
func (e *Engine) Waiting() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Sorted(maps.Keys(e.waiting))
}

// waitingFor returns why ref cannot be served yet; nil if it does not wait. The caller
// holds mu.
func (e *Engine) waitingFor(ref string) error {
	for name, w := range e.waiting {
		if name == ref || w.spec.ID != 0 && fmt.Sprint(w.spec.ID) == ref {
			return &RestoringError{Filter: name, Cause: w.cause}
		}
	}
	if e.archive != nil && e.fresh && !e.asked {
		return &RestoringError{Filter: ref, Cause: errNotAsked}
	}
	return nil
}

var errNotAsked = errors.New("the archive has not answered yet")

// readyWaiting says which filters wait; nil for none.
func (e *Engine) readyWaiting() error {
	names := e.Waiting()
	if len(names) == 0 {
		return nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.waiting {
		if w.cause != nil {
			return fmt.Errorf("waiting for the archive to restore %s; the log says why", strings.Join(names, ", "))
		}
	}
	return fmt.Errorf("being restored from the archive: %s", strings.Join(names, ", "))
}
