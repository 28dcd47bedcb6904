package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
)

// poll writes heartbeats, keeps the announcement from expiring, follows filters that other
// daemons create and drop, and notices new masters.
func (s *Store) poll(ctx context.Context) {
	tick := time.NewTicker(members.PollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.early:
		}
		s.members.HoldLives() // the daemon before this one may have ended since
		epoch, err := s.state.Check()
		if err != nil {
			continue
		}
		err = s.pollOnce(ctx, epoch)
		if ctx.Err() == nil {
			s.reach.Note(s.log, err)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("poll of redis", "err", err)
			if errors.Is(err, insync.ErrLost) {
				s.state.Invalidate(err)
			}
		}
	}
}

func (s *Store) pollOnce(ctx context.Context, epoch uint64) error {
	ids, err := s.servers.RunIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !s.state.Knows(id) {
			s.state.Invalidate(fmt.Errorf("redis has a new master (run id %.8s); resyncing", id))
			return nil
		}
	}
	inc, err := s.barrier.Incarnation(ctx, "")
	if err != nil {
		return err
	}
	if !s.state.IsCurrent(inc) {
		s.state.Invalidate(errors.New("another daemon found that redis has lost data; resyncing"))
		return nil
	}
	in := insync.Incident(ids, inc)
	if err := s.members.Announce(ctx, insync.Stopped+in, insync.Resynced+in); err != nil {
		return err
	}
	if err := s.follow(ctx, epoch); err != nil {
		return err
	}
	if err := s.publishAll(ctx); err != nil {
		return err
	}
	return s.followUnacked(ctx, s.bad(), false)
}

// publisher puts unacknowledged items where all daemons see them, as soon as Redis answers. While
// Redis is not in sync, this is left to the resync.
func (s *Store) publisher(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unpublished:
		}
		if err := s.publishAll(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("publish unacknowledged items", "err", err) // poll tries again
		}
	}
}

func (s *Store) publishAll(ctx context.Context) error {
	if _, err := s.state.Check(); err != nil {
		return err
	}
	return s.each(s.bad(), func(f base.Filter) error {
		if u, ok := f.(base.Unacknowledging); ok {
			return u.PublishUnacked(ctx, s.servers.Batches)
		}
		return nil
	})
}

// followUnacked reads the sets in Redis if another daemon has added to one since they were last
// read, or always. It leaves out the filters that are bad.
func (s *Store) followUnacked(ctx context.Context, bad map[base.Filter]bool, always bool) error {
	version, err := s.servers.Admin.Get(ctx, bitmap.UnackedVersion).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	s.mu.Lock()
	same := s.unackedRead == version
	s.mu.Unlock()
	if same && !always {
		return nil
	}
	err = s.each(bad, func(f base.Filter) error {
		if u, ok := f.(base.Unacknowledging); ok {
			return u.RefreshUnacked(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.unackedRead = version
	s.mu.Unlock()
	return nil
}
