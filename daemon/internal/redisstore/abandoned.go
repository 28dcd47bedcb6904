package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A daemon that does not answer while Redis is resynced is abandoned: the others go on
// without it, and give out what Redis has lost. What it holds unacknowledged may be among
// that, so it forgets these items when it comes back: nobody is told twice that one is
// new. Its callers were told that the outcome is unknown.

// abandonedTTL is how long a daemon that comes back learns of it.
const abandonedTTL = 24 * time.Hour

// abandon notes the daemons that nobody waits for any more, before anybody serves. It does so
// at each resync, for Redis may have lost the notes of an earlier one.
func (s *Store) abandon(ctx context.Context, daemons []string) error {
	if len(daemons) == 0 {
		return nil
	}
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range daemons {
			p.Set(ctx, abandonedPrefix+id, "1", abandonedTTL)
		}
		return nil
	})
	return err
}

// notAbandoned asks before this daemon gives out by itself, or publishes, what it holds.
// Where the others went on without it, Redis has lost data since.
func (s *Store) notAbandoned(ctx context.Context, c redis.UniversalClient) error {
	n, err := c.Exists(ctx, abandonedPrefix+s.peers.self).Result()
	if err == nil && n > 0 {
		err = errLost
	}
	return err
}

// notAsked are claims that were not sent.
func notAsked(shared []int) []claim {
	claims := make([]claim, len(shared))
	for k, i := range shared {
		claims[k].index = i
		claims[k].SetErr(errNotAsked)
	}
	return claims
}

// forgetIfAbandoned lets go of what this daemon has not published, if it was abandoned.
// With redis.in_doubt: new it keeps that, and prefers an item that is new twice.
func (s *Store) forgetIfAbandoned(ctx context.Context) error {
	if err := s.notAbandoned(ctx, s.admin); !errors.Is(err, errLost) {
		return err
	}
	if !s.opt.DoubtIsNew {
		for _, f := range s.all() {
			set, ok := f.(*set)
			if !ok {
				continue
			}
			if n := set.unacked.forget(); n > 0 {
				s.log.Warn("items that no caller was told of are not given out any more: other daemons went on without this one, and may have given them out",
					"filter", set.spec.Name, "items", n)
			}
		}
	}
	return s.admin.Del(ctx, abandonedPrefix+s.peers.self).Err()
}

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
