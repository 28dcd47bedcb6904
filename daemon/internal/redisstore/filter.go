package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// filter is one filter, of whatever kind, as the store deals with it. What its methods do
// in Redis goes by the admin client, and may be repeated.
type filter interface {
	engine.Set
	base() *common
	// lay makes what Redis must have of an empty filter, in the place of what another of
	// its name has left.
	lay(ctx context.Context) error
	// learn reads what is to be known here, and tells whether Redis has lost some of it.
	learn(ctx context.Context) (lost bool, err error)
	// stop is called when no batch is under way, before the first daemon resyncs: it takes
	// out of Redis what does not count. started tells whether a server was.
	stop(ctx context.Context, started bool) error
	// resync puts back what is known here, and tells whether Redis had lost data.
	resync(ctx context.Context) (gone bool, err error)
	// free gives the memory back; nobody uses the filter any more.
	free() error
}

// counted is a filter of which Redis can count what Stats shows.
type counted interface {
	// countNext counts a part, and tells whether it was the last one.
	countNext(ctx context.Context) (last bool, err error)
}

// expiring is a filter whose items expire.
type expiring interface {
	// sweep lets go of a part of the memory of what has expired.
	sweep() error
}

// newFilter is the filter of an entry, without anything in it.
func (s *Store) newFilter(e entry) (filter, error) {
	if !e.hasBitMap() {
		return s.newTimed(e), nil // the registry takes no others
	}
	set, err := s.newSet(e)
	if err != nil {
		return nil, err // not a typed nil
	}
	return set, nil
}

// common is what filters of all kinds have in common.
type common struct {
	store *Store
	entry

	use  sync.RWMutex // read-held by all that use the memory, write-held to end them
	gone bool
}

func (k *common) base() *common { return k }

// enter read-holds use, unless the filter is gone.
func (k *common) enter() error {
	k.use.RLock()
	if k.gone {
		k.use.RUnlock()
		return &engine.UnknownFilterError{Ref: k.spec.Name}
	}
	return nil
}

// closeFilter ends a filter; those who use it are waited for.
func closeFilter(f filter) error {
	k := f.base()
	k.use.Lock()
	defer k.use.Unlock()
	if k.gone {
		return nil
	}
	k.gone = true
	return f.free()
}

// trouble gives an error of Redis the engine's name, and invalidates the state of Redis where it
// shows that data is lost. What is gone because the filter was dropped is not lost: the
// entry in the registry goes first, long before the keys.
func (k *common) trouble(ctx context.Context, err error) error {
	var unknown *engine.UnknownFilterError
	switch {
	case err == nil, errors.As(err, &unknown), errors.Is(err, engine.ErrUnavailable):
		return err
	case strings.HasPrefix(err.Error(), "OOM"):
		return fmt.Errorf("%w: redis: %w\nhint: give Redis more memory (maxmemory)", engine.ErrNoSpace, err)
	case strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, foreign("urifilter:{"+fmt.Sprint(k.spec.ID)+"-"+k.spec.Name+":...}"))
	case errors.Is(err, errLost), errors.Is(err, errOther):
		if dropped, _ := k.store.dropped(ctx, k.entry); dropped {
			k.store.pollSoon() // which forgets it
			// The batch may have made keys again that the cleaner had removed.
			if err := k.store.unmake(ctx, k.entry); err != nil {
				k.store.log.Warn("keys of a dropped filter may be left in redis", "filter", k.spec.Name, "err", err)
			}
			return &engine.UnknownFilterError{Ref: k.spec.Name}
		}
		k.store.sync.invalidate(err)
	}
	return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
}

// inDoubt is the error of a batch of which unsure items may have been remembered. A filter
// that was dropped remembers none.
func inDoubt(err error, unsure int) error {
	var unknown *engine.UnknownFilterError
	if unsure == 0 || errors.As(err, &unknown) {
		return err
	}
	return fmt.Errorf("%w: %d items may have been remembered: %w", engine.ErrInDoubt, unsure, err)
}
