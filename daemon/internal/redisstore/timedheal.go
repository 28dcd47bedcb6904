package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// lay implements filter.
func (s *timed) lay(ctx context.Context) error {
	_, err := s.store.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range groups {
			p.Set(ctx, s.witness(g), "1", 0)
		}
		return nil
	})
	return err
}

// whole tells whether all witnesses are there.
func (s *timed) whole(ctx context.Context) (bool, error) {
	there := make([]*redis.IntCmd, groups)
	_, err := s.store.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range groups {
			there[g] = p.Exists(ctx, s.witness(g))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, cmd := range there {
		if cmd.Val() == 0 {
			return false, nil
		}
	}
	return true, nil
}

// learn implements filter: the items themselves are asked for when they come.
func (s *timed) learn(ctx context.Context) (lost bool, err error) {
	whole, err := s.whole(ctx)
	return !whole, err
}

// stop implements perishable: it removes what was set in a Redis that had lost data. Nobody was
// told of these items, and another daemon may know that they were seen.
func (s *timed) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.void) > 0 {
		n := min(pieceItems, len(s.void))
		_, err := s.store.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range s.void[:n] {
				p.Unlink(ctx, string(s.key(nil, key)))
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.void = s.void[n:]
	}
	return nil
}

// heal implements filter: it puts back what the mirror has, for as long as it has yet to
// be seen. The witnesses come first and are looked at again in the end, so that a Redis
// which is flushed meanwhile does not pass for healed.
func (s *timed) heal(ctx context.Context) (gone bool, err error) {
	if s.enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.use.RUnlock()
	whole, err := s.whole(ctx)
	if err == nil && !whole {
		err = s.lay(ctx)
	}
	if err != nil {
		return false, err
	}
	var entries []timing.Entry
	signed := time.Now()
	for part := range timing.Parts {
		entries = s.mirror.Part(part, entries[:0])
		for rest := entries; len(rest) > 0; {
			n := min(pieceItems, len(rest))
			if err := s.putBack(ctx, rest[:n]); err != nil {
				return !whole, err
			}
			rest = rest[n:]
			// This may take longer than the other daemons wait for one that is silent.
			if time.Since(signed) > pollEvery {
				if err := s.store.sign(ctx); err != nil {
					return !whole, err
				}
				signed = time.Now()
			}
		}
	}
	if again, err := s.whole(ctx); err != nil {
		return !whole, err
	} else if !again {
		return true, errLost
	}
	return !whole, nil
}

func (s *timed) putBack(ctx context.Context, entries []timing.Entry) error {
	now := s.mirror.Now()
	_, err := s.store.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range entries {
			if left := e.Until - now; left > 0 {
				p.Set(ctx, string(s.key(nil, e.Key)), "1", time.Duration(left)*time.Millisecond)
			}
		}
		return nil
	})
	return err
}

// remove implements filter. Without its entry in the registry nobody asks for the keys any
// more, and a new filter has others; the cleaner takes them away.
func (s *timed) remove(context.Context) error {
	select {
	case s.store.debris <- s.prefix:
	default: // they expire some day
	}
	return nil
}

// debrisWait is how long the other daemons may take to see that a filter was dropped; a
// witness that is gone before would be taken for lost data.
const debrisWait = 3 * pollEvery

// cleaner removes the keys of dropped timing filters. What it leaves when the daemon stops
// expires by itself.
func (s *Store) cleaner(ctx context.Context) {
	for {
		var prefix string
		select {
		case <-ctx.Done():
			return
		case prefix = <-s.debris:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(debrisWait):
		}
		err := masters(ctx, s.admin, func(ctx context.Context, c *redis.Client) error { return clean(ctx, c, prefix) })
		if err != nil && ctx.Err() == nil {
			s.log.Warn("keys of a dropped filter are left in redis until they expire", "prefix", prefix, "err", err)
		}
	}
}

// clean removes the keys that begin with prefix from one server.
func clean(ctx context.Context, c *redis.Client, prefix string) error {
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, prefix+"*", 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys {
					p.Unlink(ctx, key)
				}
				return nil
			})
			if moved := err != nil && strings.HasPrefix(err.Error(), "MOVED"); err != nil && !moved {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
