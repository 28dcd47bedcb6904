package bitmap

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// unacked are the unacknowledged items of a bloom filter: a batch set their bits in Redis
// and broke off, so that no caller was told that they are new. Asked again, Redis would
// call them seen, and nobody would ever fetch them. (An item of a timing filter is taken
// out of Redis in that case; bits cannot be.)
//
// They are kept in a set in Redis, where the daemon whose SREM removes one gives it to its
// caller as new: one daemon, once. Each daemon has a copy, so that its batches ask for
// those only that they have. Until an item is in that set, the daemon that broke off
// gives it out by itself.
//
// If the data of Redis is lost, the set goes too: it may name items that were given out.
// Callers were told that the outcome is unknown (redis.in_doubt: new keeps the set, and
// prefers an item that is new twice).
type unacked struct {
	size atomic.Int64 // so that batches need no lock while there is none
	// moving is held while items go into the set: a caller that asks for one finds it here or there.
	moving sync.RWMutex
	// copying is held while the set is copied: what was read first must not replace what was read later.
	copying sync.Mutex

	mu      sync.Mutex
	keys    map[bloom.Hash]bool // whether the set in Redis decides
	sending []publication
}

// publication is a part of the items on its way into the set. Its token in Redis makes it
// safe to repeat: items that were given out meanwhile do not come back.
type publication struct {
	token string
	keys  []bloom.Hash
}

const (
	maxUnacked      = 1 << 20
	publicationSize = 2000 // a script's arguments must fit Lua's stack
	publicationTTL  = 24 * time.Hour
)

// publish puts ARGV[2...] into the set KEYS[1], unless KEYS[2] says that this was done.
var publish = redis.NewScript(`
if not redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[1]) then return 0 end
return redis.call('SADD', KEYS[1], unpack(ARGV, 2))
`)

// hold keeps keys until they are published. Past maxUnacked it takes no more, and returns
// how many it left.
func (u *unacked) hold(keys []bloom.Hash) (left int) { return u.insert(keys, false) }

func (u *unacked) insert(keys []bloom.Hash, shared bool) (left int) {
	if len(keys) == 0 {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = map[bloom.Hash]bool{}
	}
	for _, key := range keys {
		if _, ok := u.keys[key]; ok {
			continue
		}
		if len(u.keys) >= maxUnacked {
			left++
			continue
		}
		u.keys[key] = shared
	}
	u.size.Store(int64(len(u.keys)))
	return left
}

// copy takes in what the set in Redis has. What it has no longer, others have given out: kept, it would
// some day leave no room for more.
func (u *unacked) copy(keys []bloom.Hash) {
	u.mu.Lock()
	there := make(map[bloom.Hash]bool, len(keys))
	for _, key := range keys {
		there[key] = true
	}
	for _, p := range u.sending { // may not be there yet
		for _, key := range p.keys {
			there[key] = true
		}
	}
	for key, shared := range u.keys {
		if shared && !there[key] {
			delete(u.keys, key)
		}
	}
	u.size.Store(int64(len(u.keys)))
	u.mu.Unlock()
	u.insert(keys, true)
}

// all are the items that were not published yet, or may not have been.
func (u *unacked) all() []bloom.Hash {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []bloom.Hash
	for key, shared := range u.keys {
		if !shared {
			all = append(all, key)
		}
	}
	for _, p := range u.sending {
		all = append(all, p.keys...)
	}
	return all
}

// find sets isNew for those of keys that this daemon gives out by itself, and lists those
// of which the set in Redis decides. Both are no longer in the copy. own tells whether
// there is one of the first.
func (u *unacked) find(keys []bloom.Hash, isNew []bool) (shared []int, own bool) {
	if u.size.Load() == 0 {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, key := range keys {
		decides, ok := u.keys[key]
		switch {
		case !ok:
			continue
		case decides:
			shared = append(shared, i)
		default:
			isNew[i], own = true, true
		}
		delete(u.keys, key)
	}
	u.size.Store(int64(len(u.keys)))
	return shared, own
}

// peek is find for those who only look.
func (u *unacked) peek(keys []bloom.Hash, isNew []bool) (shared []int) {
	if u.size.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, key := range keys {
		if decides, ok := u.keys[key]; ok && decides {
			shared = append(shared, i)
		} else if ok {
			isNew[i] = true
		}
	}
	return shared
}

// next is what is to be published, as it was begun.
func (u *unacked) next(self string) []publication {
	u.mu.Lock()
	defer u.mu.Unlock()
	var keys []bloom.Hash
	cut := func() {
		if len(keys) > 0 {
			u.sending = append(u.sending, publication{token: self + ":" + serial(), keys: keys})
			keys = nil
		}
	}
	for key, shared := range u.keys {
		if shared {
			continue
		}
		u.keys[key] = true
		if keys = append(keys, key); len(keys) == publicationSize {
			cut()
		}
	}
	cut()
	return u.sending
}

// sent notes that a publication is in Redis.
func (u *unacked) sent(token string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var rest []publication
	for _, p := range u.sending {
		if p.token != token {
			rest = append(rest, p)
		}
	}
	u.sending = rest
}

// serials number what this process makes: keys in Redis that one call uses alone.
var serials atomic.Uint64

func serial() string { return strconv.FormatUint(serials.Add(1), 36) }

// forget lets go of what is not in the set in Redis, and returns how many items that were.
func (u *unacked) forget() (n int) {
	u.moving.Lock()
	defer u.moving.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, shared := range u.keys {
		if !shared {
			delete(u.keys, key)
			n++
		}
	}
	for _, p := range u.sending {
		for _, key := range p.keys {
			delete(u.keys, key)
			n++
		}
	}
	u.sending = nil
	u.size.Store(int64(len(u.keys)))
	return n
}
