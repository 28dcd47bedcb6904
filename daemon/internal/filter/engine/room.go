package engine

import (
	"context"
	"fmt"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// room is the room of a filter with on_full: reject. A batch that would fill the filter beyond its
// capacity is refused, so it takes room before its items are added: batches that run at the same
// time count, too.
type room struct {
	mu      sync.Mutex
	taken   uint64        // for batches whose items are being added; Stats may have some of them
	ended   chan struct{} // closed when one of these ends; nil: nobody waits
	endings uint64        // how many have ended
}

// take takes room for n new items. If the filter has no room for them, it says that there is none,
// or returns a channel to wait for, or neither if n should be found out again: since is the number
// of endings before that was done.
func (r *room) take(n, capacity, since uint64, items func() uint64) (taken, none bool, wait <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case items()+r.taken+n <= capacity:
		r.taken += n
		return true, false, nil
	case r.taken == 0:
		return false, r.endings == since, nil
	case r.ended == nil:
		r.ended = make(chan struct{})
	}
	return false, false, r.ended
}

func (r *room) give(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
	r.endings++
	if r.ended != nil {
		close(r.ended)
		r.ended = nil
	}
}

func (r *room) seen() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endings
}

// addWithin is Add of a set that takes no more items than its capacity, as Stats estimates them.
// Only a batch that may not fit as a whole is looked at before, for what it would add. Daemons
// that share a store do not wait for each other's batches.
func (f *Filter) addWithin(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	room, err := f.takeRoom(ctx, "batch", uint64(len(keys)), func() (uint64, error) {
		if err := f.Set.Has(ctx, keys, fresh); err != nil {
			return 0, err
		}
		return distinct(keys, fresh), nil
	})
	if err != nil || room == 0 {
		return 0, err
	}
	defer f.room.give(room)
	return f.Set.Add(ctx, keys, fresh)
}

// takeRoom takes room for the new items of something, of which there are most at most, and returns for
// how many. Where these may not fit, it has them counted.
func (f *Filter) takeRoom(ctx context.Context, something string, most uint64, count func() (uint64, error)) (room uint64, err error) {
	items := func() uint64 { return f.Stats().Items }
	since, need := f.room.seen(), most
	for counted := false; need > 0; counted = true {
		taken, none, wait := f.room.take(need, f.bound.Items, since, items)
		switch {
		case taken:
			return need, nil
		case counted && none:
			return 0, fmt.Errorf("filter %s: %d of %d items, and the %s has %d new ones: %w", f.Name, items(), f.bound.Items, something, need, ErrFull)
		case counted && wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		since = f.room.seen()
		if need, err = count(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// distinct counts the different keys that are fresh.
func distinct(keys []bloom.Hash, fresh []bool) uint64 {
	all := make(map[bloom.Hash]struct{}, len(keys))
	for i, key := range keys {
		if fresh[i] {
			all[key] = struct{}{}
		}
	}
	return uint64(len(all))
}
