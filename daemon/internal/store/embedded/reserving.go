package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// reserving is a filter whose items can be reserved.
type reserving struct {
	forgetful
	items kind.Reserving

	ready    atomic.Bool // the file has reservations
	readying sync.Mutex
}

var _ engine.Reserving = (*reserving)(nil)

func newReserving(k *diskFilter, items kind.Reserving) *reserving {
	s := &reserving{forgetful: forgetful{plain{k, items}, items}, items: items}
	s.ready.Store(items.FileReserves())
	return s
}

// Reserve implements engine.Reserving.
func (s *reserving) Reserve(_ context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (result engine.Reserved, err error) {
	if len(keys) == 0 {
		return result, nil
	}
	if err := s.prepare(); err != nil {
		return result, err
	}
	_, err = s.change(len(keys)+1, func() (int, error) {
		result = s.items.Reserve(id, keys, lease, fresh)
		return 0, nil
	})
	return result, err
}

// prepare makes sure, before the first reservation, that the filter's file is written in the
// version that has reservations.
func (s *reserving) prepare() error {
	if s.ready.Load() {
		return nil
	}
	s.readying.Lock()
	defer s.readying.Unlock()
	if s.ready.Load() {
		return nil
	}
	s.items.SetFileReserves()
	err := s.checkpointBy(true, func(path string, from uint64) error { return s.items.Write(s.store.opt.FS, path, from) })
	if err == nil {
		s.ready.Store(true)
	}
	return err
}

// Commit implements engine.Reserving.
func (s *reserving) Commit(_ context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	if keys == nil {
		keys = s.items.Committable(id)
		lost = make([]bool, len(keys))
	}
	return s.settle(len(keys), func() (engine.Settled, error) { return s.items.Commit(id, keys, expire, lost) })
}

// Release implements engine.Reserving.
func (s *reserving) Release(_ context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	if keys == nil {
		keys = s.items.Releasable(id)
		lost = make([]bool, len(keys))
	}
	return s.settle(len(keys), func() (engine.Settled, error) { return s.items.Release(id, keys, lost) })
}

// settle lets work commit or release n keys.
func (s *reserving) settle(n int, work func() (engine.Settled, error)) (result engine.Settled, err error) {
	var unknown error
	_, err = s.change(n+1, func() (int, error) {
		done, err := work()
		if errors.Is(err, engine.ErrNoReservation) {
			unknown = fmt.Errorf("filter %s: %w", s.spec.Name, err)
			return 0, nil
		}
		result = done
		return 0, err
	})
	return result, cmp.Or(err, unknown)
}
