package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	return s.followUnacked(ctx, false)
}
