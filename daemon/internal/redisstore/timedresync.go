package redisstore

import (
	"context"
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

// stop implements filter: it removes what nobody was told of. Items that were set in a
// Redis that had lost data are among them, and another daemon may know that they were seen.
func (s *timed) stop(ctx context.Context, _ bool) error { return s.undoPending(ctx, s.store.admin) }

// resync implements filter: it puts back what the mirror has, for as long as it has yet to
// be seen. The witnesses come first and are looked at again in the end, so that a Redis
// which is flushed meanwhile does not pass for resynced.
func (s *timed) resync(ctx context.Context) (gone bool, err error) {
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
	beat := time.Now()
	for part := range timing.Parts {
		entries = s.mirror.Part(part, entries[:0])
		for rest := entries; len(rest) > 0; {
			n := min(pieceItems, len(rest))
			if err := s.putBack(ctx, rest[:n]); err != nil {
				return !whole, err
			}
			rest = rest[n:]
			// This may take longer than the other daemons wait for one that is silent.
			if time.Since(beat) > pollEvery {
				if err := s.store.beat(ctx); err != nil {
					return !whole, err
				}
				beat = time.Now()
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
