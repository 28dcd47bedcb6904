package forgotten

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
)

// Untold is an item that was put into Redis by a batch that then broke off, so that no caller
// was told that the item is new.
type Untold struct {
	Key   bloom.Hash
	Mark  int64 // how many items of its group were forgotten before it was put there
	Until int64 // when it may have expired, by the clock of the filter; 0: never
}

// Queue holds untold items that must still be removed from Redis.
type Queue struct {
	size atomic.Int64 // so that batches need no lock while there are none
	turn sync.Mutex   // held by who removes

	mu    sync.Mutex
	items []Untold
	turns uint64 // how many have ended
	err   error  // of the last one
}

// Add adds items.
func (q *Queue) Add(items []Untold) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
	q.size.Store(int64(len(q.items)))
}

// Empty calls undo with all items, and keeps those that are left. Meanwhile other callers wait: they
// would find an item that is still in Redis, and call it seen. They get the same error.
func (q *Queue) Empty(undo func(items []Untold) (left []Untold, err error)) error {
	if q.size.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	turns := q.turns
	q.mu.Unlock()
	q.turn.Lock()
	defer q.turn.Unlock()
	q.mu.Lock()
	items, failed := q.items, error(nil)
	if q.turns > turns {
		failed = q.err
	}
	if failed == nil {
		q.items = nil
	}
	q.mu.Unlock()
	if failed != nil || len(items) == 0 {
		return failed
	}
	left, err := undo(items)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(left, q.items...)
	q.size.Store(int64(len(q.items)))
	q.turns, q.err = q.turns+1, err
	return err
}

// undoTries is how often an undo is tried, because others forget items all the time.
const undoTries = 20

// ErrBusy is returned by Undo if the groups of the items have another count at each try: others
// forget items all the time, or Redis has gone back to a lower count and is not resynced.
var ErrBusy = errors.New("other daemons forget items faster than these can be removed")

// Undo uses c to remove untold items from Redis, as if they were forgotten, because other
// daemons may have mirrored them: the next caller that asks for one gets it as new. An item
// that was forgotten since it was put there is left alone, because it may have been given out.
// An error means that some items may still be in Redis: left are those with which nothing was
// done, to be tried again next time. If a reply was lost, another daemon may have given the
// item out since, so that it is in left only if again is set.
func (l *Log) Undo(ctx context.Context, c redis.UniversalClient, items []Untold, again bool) (removed []bloom.Hash, left []Untold, err error) {
	until := make(map[bloom.Hash]int64, len(items))
	for _, item := range items {
		until[item.Key] = item.Until
	}
	for range undoTries {
		now, keys := l.due(items)
		if len(keys) == 0 {
			return removed, nil, nil
		}
		r, err := l.Remove(ctx, c, keys, &now)
		removed = append(removed, r.Removed...)
		if again {
			r.Left = append(r.Left, r.Unsure...)
		}
		items = nil
		for _, key := range r.Left {
			items = append(items, Untold{key, now[GroupOf(key)], until[key]})
		}
		if errors.Is(err, insync.ErrLost) && len(items)+len(r.Unsure) == 0 {
			err = nil // they are out, and the next batch finds what is lost
		}
		if err != nil || len(items) == 0 {
			return removed, items, err
		}
	}
	return removed, items, ErrBusy
}

// due returns the items that were not forgotten since they were put into Redis, as far as this
// daemon has followed. now is how far that is.
func (l *Log) due(items []Untold) (now Marks, keys []bloom.Hash) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for g := range now {
		now[g] = l.groups[g].at
	}
	for _, item := range items {
		last, ok := l.since(GroupOf(item.Key), item.Mark)
		for _, key := range last {
			ok = ok && key != item.Key
		}
		if ok {
			keys = append(keys, item.Key)
		}
	}
	return now, keys
}
