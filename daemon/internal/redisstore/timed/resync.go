package timed

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// Lay implements filter.Filter.
func (s *Set) Lay(ctx context.Context) error {
	if _, err := s.log.Lay(ctx); err != nil {
		return err
	}
	_, err := s.log.Whole(ctx)
	return err
}

// Learn implements filter.Filter: the items themselves are asked for when they come.
func (s *Set) Learn(ctx context.Context) (lost bool, err error) {
	whole, err := s.log.Whole(ctx)
	return !whole, err
}

// Stop implements filter.Filter: it removes what nobody was told of, and what was forgotten
// and is there again. Items that were set in a Redis that had lost data are among the first, and
// another daemon may know that they were seen.
func (s *Set) Stop(ctx context.Context, _ bool) error {
	if err := s.log.Restore(ctx, s.dropped); err != nil {
		return err
	}
	if err := s.undoPending(ctx, s.Servers.Admin); !errors.Is(err, forgotten.ErrBusy) {
		return err
	}
	return nil // the next batch takes them out, when the witnesses count from where they did
}

func (s *Set) dropped(ctx context.Context) (bool, error) { return s.Registry.Dropped(ctx, s.Entry) }

// Resync implements filter.Filter: it puts back what the mirror has, for as long as it has yet to
// be seen. The witnesses come first and are looked at again in the end, so that a Redis
// which is flushed meanwhile does not pass for resynced.
func (s *Set) Resync(ctx context.Context) (gone bool, err error) {
	if s.Enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	if gone, err = s.log.Lay(ctx); err != nil {
		return gone, err
	}
	// What others forgot is not put back.
	if whole, err := s.log.Whole(ctx); err != nil {
		return gone, err
	} else if !whole {
		return true, insync.ErrLost
	}
	var entries []timing.Entry
	for part := range timing.Parts {
		entries = s.mirror.Part(part, entries[:0])
		for rest := entries; len(rest) > 0; {
			n := min(servers.PieceItems, len(rest))
			if err := s.putBack(ctx, rest[:n]); err != nil {
				return gone, err
			}
			rest = rest[n:]
		}
	}
	if whole, err := s.log.Whole(ctx); err != nil {
		return gone, err
	} else if !whole {
		return true, insync.ErrLost
	}
	return gone, nil
}

func (s *Set) putBack(ctx context.Context, entries []timing.Entry) error {
	now := s.mirror.Now()
	_, err := s.Servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range entries {
			if left := e.Until - now; left > 0 {
				p.Set(ctx, string(s.key(nil, e.Key)), "1", time.Duration(left)*time.Millisecond)
			}
		}
		return nil
	})
	return err
}
