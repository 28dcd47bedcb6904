// Package shared has what the stores that several daemons share do alike, whatever server they keep
// filters in: which filters a daemon does not serve, how filters get their ids, and what a caller is told
// of items that may have been changed. It contacts no server.
package shared

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// damagedError is an error of one filter's data. It says nothing about other filters.
type damagedError struct{ error }

func (e damagedError) Unwrap() error { return e.error }

// Damaged makes err an error that IsDamaged recognizes.
func Damaged(err error) error { return damagedError{err} }

// IsDamaged reports whether an error concerns only one filter, so that others can be served.
func IsDamaged(err error) bool { return errors.As(err, new(damagedError)) }

// Quarantine has the filters that a daemon does not serve, because their entries or their data cannot be
// understood: it serves the others, and gives the name and the id of such a filter to no other. Where
// distinguishes successive entries of one name. A daemon that is already serving a filter when its entry is
// damaged goes on until it is restarted.
type Quarantine struct {
	mu  sync.Mutex
	bad map[string]engine.Quarantined // by name
}

// Add notes a filter that is not served. If it is known already, Add returns what was noted.
func (q *Quarantine) Add(bad engine.Quarantined) (noted engine.Quarantined, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if was, there := q.bad[bad.Name]; there && was.Where == bad.Where {
		return was, true
	}
	if q.bad == nil {
		q.bad = map[string]engine.Quarantined{}
	}
	q.bad[bad.Name] = bad
	return bad, false
}

// Quarantined implements part of engine.Quarantiner.
func (q *Quarantine) Quarantined() []engine.Quarantined {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Values(q.bad))
}

// Remove makes the name of a filter available again, and tells whether the filter was in quarantine.
func (q *Quarantine) Remove(bad engine.Quarantined) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was, there := q.bad[bad.Name]
	if !there || was.Where != bad.Where {
		return false
	}
	delete(q.bad, bad.Name)
	return true
}

// Follow removes the filters that do not stay, because their entries were dropped or mended, and reports
// them.
func (q *Quarantine) Follow(feed *engine.Feed, stays func(bad engine.Quarantined) bool) {
	for _, bad := range q.Quarantined() {
		if !stays(bad) && q.Remove(bad) {
			feed.Send(engine.Change{Spec: engine.Spec{ID: bad.ID, Name: bad.Name}, Mended: &bad})
		}
	}
}

// HighestID names the highest id that was given, among the ids of filters, by name, that exist or are
// being created.
const HighestID = ":highest"

// TakeID returns the id of a filter of a name, least at least, and which of the ids change by that.
func TakeID(have map[string]int, name string, least int) (id int, changes map[string]int) {
	if id = have[name]; id >= least {
		return id, nil
	}
	id = max(least, have[HighestID]+1)
	return id, map[string]int{HighestID: id, name: id}
}

// NoteID returns which of the ids change when a filter has an id that was not taken here.
func NoteID(have map[string]int, id int) (changes map[string]int) {
	if have[HighestID] >= id {
		return nil
	}
	return map[string]int{HighestID: id}
}

// InDoubt is the error of a call of which unsure items may have been changed; done says what may have
// become of them. In a filter that was dropped, nothing has.
func InDoubt(err error, unsure int, done string) error {
	if unsure == 0 || errors.As(err, new(*engine.UnknownFilterError)) {
		return err
	}
	return fmt.Errorf("%w: %d items may have been %s: %w", engine.ErrInDoubt, unsure, done, err)
}

// Lock is a mutex for which a caller can wait as long as its context lasts.
type Lock struct{ held chan struct{} }

// NewLock makes a Lock that is free.
func NewLock() Lock { return Lock{make(chan struct{}, 1)} }

// Lock locks l.
func (l Lock) Lock() { l.held <- struct{}{} }

// Unlock unlocks l.
func (l Lock) Unlock() { <-l.held }

// LockUntil is Lock until ctx ends; then it returns an error that wraps engine.ErrUnavailable.
func (l Lock) LockUntil(ctx context.Context) error {
	select {
	case l.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("filters are being changed: %w: %w", engine.ErrUnavailable, ctx.Err())
	}
}
