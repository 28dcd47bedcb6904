package itemset

import (
	"context"
	"errors"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
)

// Create implements base.Filter.
func (s *Set) Create(ctx context.Context) error {
	if _, err := s.Removals.CreateWitnesses(ctx); err != nil {
		return err
	}
	_, err := s.Removals.Whole(ctx)
	return err
}

// Load implements base.Filter: the items themselves are queried only when batches contain
// them.
func (s *Set) Load(ctx context.Context) (lost bool, err error) {
	whole, err := s.Removals.Whole(ctx)
	return !whole, err
}

// Stop implements base.Filter: it removes items that nobody was told of, and forgotten items
// that exist again. Items that were set in a Redis that had lost data are among the former, and
// another daemon may know that they were seen.
func (s *Set) Stop(ctx context.Context, _ bool) error {
	dropped := func(ctx context.Context) (bool, error) { return s.Registry.Dropped(ctx, s.Entry) }
	if err := s.Removals.Restore(ctx, dropped); err != nil {
		return err
	}
	if err := s.undoPending(ctx, s.Servers.Admin); !errors.Is(err, forgotten.ErrBusy) {
		return err
	}
	return nil // the next batch removes them, when the witnesses have their former counts again
}

// Resync implements base.Filter: it puts back what the mirror has. The witnesses are created
// first and checked again at the end, so that a Redis that is flushed meanwhile does not pass
// for resynced.
func (s *Set) Resync(ctx context.Context) (gone bool, err error) {
	if s.Enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	if gone, err = s.Removals.CreateWitnesses(ctx); err != nil {
		return gone, err
	}
	if err := s.witnessed(ctx); err != nil { // what others forgot is not put back
		return gone, err
	}
	if err := s.items.Resend(ctx); err != nil {
		return gone, err
	}
	return gone, s.witnessed(ctx)
}

// witnessed follows what others forgot. It returns insync.ErrLost if a witness does not exist.
func (s *Set) witnessed(ctx context.Context) error {
	whole, err := s.Removals.Whole(ctx)
	if err == nil && !whole {
		err = insync.ErrLost
	}
	return err
}
