package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// doubt holds keys that were taken for new, or may have been, in batches that failed half
// way: their bits are set in Redis, and no caller was told. Asked again, Redis would call
// them seen and nobody would ever fetch them. So the next batch here that has such a key
// gets it as new, once.
//
// Where the reply came, and only another part of the batch failed, this is exact: no
// other caller was told. Where the reply did not come, another daemon's caller may have
// been; so those keys are held only if the settings prefer an item that is new twice to
// one that is new for nobody (redis.in_doubt: new).
type doubt struct {
	size atomic.Int64 // so that batches need no lock while there is none

	mu   sync.Mutex
	keys map[bloom.Hash]time.Time
}

const (
	maxDoubt = 1 << 20
	doubtTTL = 15 * time.Minute
)

// add puts keys in doubt. Past maxDoubt it takes no more, and returns how many it left.
func (d *doubt) add(keys []bloom.Hash) (left int) {
	if len(keys) == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.keys == nil {
		d.keys = map[bloom.Hash]time.Time{}
	}
	if len(d.keys)+len(keys) > maxDoubt {
		for key, since := range d.keys {
			if now.Sub(since) > doubtTTL {
				delete(d.keys, key)
			}
		}
	}
	for i, key := range keys {
		if len(d.keys) >= maxDoubt {
			left = len(keys) - i
			break
		}
		d.keys[key] = now
	}
	d.size.Store(int64(len(d.keys)))
	return left
}

// take clears a key's doubt and tells whether there was one.
func (d *doubt) take(key bloom.Hash) bool {
	if d.size.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.keys[key]
	delete(d.keys, key)
	d.size.Store(int64(len(d.keys)))
	return ok && time.Since(since) < doubtTTL
}

// has tells whether a key is in doubt.
func (d *doubt) has(key bloom.Hash) bool {
	if d.size.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	since, ok := d.keys[key]
	return ok && time.Since(since) < doubtTTL
}
