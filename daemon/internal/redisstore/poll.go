package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// beat gives a heartbeat and reads the others'.
func (s *Store) beat(ctx context.Context) error {
	var members *redis.MapStringStringCmd
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, membersKey, s.peers.self, s.peers.heartbeat())
		members = p.HGetAll(ctx, membersKey)
		return nil
	})
	if err != nil {
		return err
	}
	stale := s.peers.note(members.Val(), time.Now())
	fallen := s.peers.unannounced(members.Val())
	if len(stale)+len(fallen) == 0 {
		return nil
	}
	_, err = s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(stale) > 0 {
			p.HDel(ctx, membersKey, stale...)
			p.HDel(ctx, followedKey, stale...)
		}
		for _, id := range fallen {
			p.HSet(ctx, membersKey, id, killed)
		}
		return nil
	})
	if err == nil && len(fallen) > 0 {
		s.log.Info("the earlier life of this daemon was killed; nobody waits for it", "daemons", strings.Join(fallen, " "))
	}
	return err
}

// poll leaves heartbeats, keeps the announcement from expiring, follows filters that
// other daemons make and drop, and notices masters that are new.
func (s *Store) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.early:
		}
		s.holdLives() // the daemon before this one may have ended since
		epoch, err := s.sync.check()
		if err != nil {
			continue
		}
		err = s.pollOnce(ctx, epoch)
		if ctx.Err() == nil {
			s.reach.note(s.log, err)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("poll of redis", "err", err)
			if errors.Is(err, errLost) {
				s.sync.invalidate(err)
			}
		}
	}
}

func (s *Store) pollOnce(ctx context.Context, epoch uint64) error {
	ids, err := s.runIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !s.sync.knows(id) {
			s.sync.invalidate(fmt.Errorf("redis has a new master (run id %.8s); resyncing", id))
			return nil
		}
	}
	inc, err := s.incarnation(ctx, "")
	if err != nil {
		return err
	}
	if !s.sync.isCurrent(inc) {
		s.sync.invalidate(errors.New("another daemon found that redis has lost data; resyncing"))
		return nil
	}
	in := incident(ids, inc)
	if err := s.announce(ctx, stoppedPrefix+in, resyncedPrefix+in); err != nil {
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

// pollSoon makes poll look at once.
func (s *Store) pollSoon() {
	select {
	case s.early <- struct{}{}:
	default:
	}
}
