package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Quarantined is a filter whose data in the store are damaged. It is not served, and no other
// filter gets its name or id: an empty filter in its place would call old items new.
type Quarantined struct {
	ID    int // 0 if unknown
	Name  string
	Where string // in the store
	Cause error  // names the damage, and the remedy
}

// Quarantiner is a Store that serves the other filters when one is damaged.
type Quarantiner interface {
	// Quarantined lists the filters that the last Load omitted.
	Quarantined() []Quarantined
	// PutAway moves the data of a quarantined filter aside, durable on return, and returns
	// their new place. It removes none of them.
	PutAway(ctx context.Context, q Quarantined) (to string, err error)
}

// QuarantinedError is returned for a filter in quarantine.
type QuarantinedError struct{ Quarantined }

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("filter %s: is in quarantine: %v", e.Name, e.Cause)
}

func (e *QuarantinedError) Unwrap() error { return e.Cause }

// takeQuarantined asks the store for the filters that Load omitted.
func (e *Engine) takeQuarantined() {
	store, ok := e.store.(Quarantiner)
	if !ok {
		return
	}
	for _, q := range store.Quarantined() {
		e.confine(q)
	}
}

// confine puts a filter into quarantine.
func (e *Engine) confine(q Quarantined) {
	e.mu.Lock()
	e.quarantine = append(slices.Clone(e.quarantine), q)
	e.mu.Unlock()
	e.log.Error("filter is in QUARANTINE and not served; the others are", "filter", q.Name, "id", q.ID, "where", q.Where, "err", q.Cause)
}

// release ends the quarantine of a filter that another daemon has dropped or repaired.
func (e *Engine) release(q Quarantined) {
	e.mu.Lock()
	had := len(e.quarantine)
	e.quarantine = slices.DeleteFunc(slices.Clone(e.quarantine), func(o Quarantined) bool { return o.Where == q.Where && o.Name == q.Name })
	left := len(e.quarantine) < had
	e.mu.Unlock()
	if left {
		e.log.Warn("filter has left quarantine: another daemon has dropped or repaired it", "filter", q.Name, "id", q.ID)
	}
}

// Quarantined lists the filters that are in quarantine.
func (e *Engine) Quarantined() []Quarantined {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Clone(e.quarantine)
}

// quarantined finds a quarantined filter by its name or its id in decimal; nil for none. The caller holds mu.
func (e *Engine) quarantined(ref string) error {
	for _, q := range e.quarantine {
		if q.Name == ref || q.ID != 0 && strconv.Itoa(q.ID) == ref {
			return &QuarantinedError{q}
		}
	}
	return nil
}

// dropQuarantined is Drop for a filter in quarantine. Its data are moved away, and the archive
// keeps its versions: a filter that is then made with the same parameters is restored from there.
func (e *Engine) dropQuarantined(ctx context.Context, bad *QuarantinedError) error {
	store, ok := e.store.(Quarantiner)
	if !ok {
		return bad
	}
	for _, q := range e.Quarantined() {
		if q.Where != bad.Where && (q.Name == bad.Name || q.ID != 0 && q.ID == bad.ID) {
			return fmt.Errorf("filter %s: %s and %s both claim its name or id\nhint: move one of them away, and start the daemon again: %w", bad.Name, bad.Where, q.Where, ErrConflict)
		}
	}
	to, err := store.PutAway(ctx, bad.Quarantined)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.quarantine = slices.DeleteFunc(e.quarantine, func(q Quarantined) bool { return q.Where == bad.Where })
	e.mu.Unlock()
	e.log.Warn("filter dropped from quarantine; its data are moved away, and the archive keeps its versions", "filter", bad.Name, "id", bad.ID, "to", to)
	return nil
}
