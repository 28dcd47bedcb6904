package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// announce adds this daemon to the sets of those who have stopped, or resynced.
func (s *Store) announce(ctx context.Context, keys ...string) error {
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.SAdd(ctx, key, s.peers.self)
			p.Expire(ctx, key, resyncedTTL)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.beat(ctx)
}

// together takes a step of resyncing an incident, and waits until all other daemons have taken it too,
// have signed off, or are taken for dead.
func (s *Store) together(ctx context.Context, step, in string) error {
	key := step + in
	if err := s.announce(ctx, key); err != nil {
		return err
	}
	start := time.Now()
	waited := map[string]bool{}
	for {
		// Should Redis lose data once more, the others resync another incident by now.
		if now, err := s.incidentNow(ctx); err != nil {
			return err
		} else if now != in {
			return errChanged
		}
		done, err := s.admin.SMembersMap(ctx, key).Result()
		if err != nil {
			return err
		}
		if err := s.beat(ctx); err != nil {
			return err
		}
		var missing []string
		for _, id := range s.peers.alive() {
			if _, ok := done[id]; !ok {
				missing = append(missing, id)
				waited[id] = true
			}
		}
		given := s.peers.lost(waited)
		if time.Since(start) > resyncMost {
			given, missing = append(given, missing...), nil
		}
		if len(given) > 0 {
			s.log.Warn("daemons that shared this redis do not answer; what only they knew may be new again", "daemons", strings.Join(given, " "))
			// Nor need others wait for them, those that are started later included.
			for _, key := range []string{stoppedPrefix + in, resyncedPrefix + in} {
				if err := s.admin.SAdd(ctx, key, boxed(given)...).Err(); err != nil {
					return err
				}
			}
		}
		if len(missing) == 0 {
			return s.abandon(ctx, append(s.peers.away(), given...))
		}
		s.sync.note(fmt.Errorf("waiting for other daemons that share this redis: %s", strings.Join(missing, " ")))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func boxed(ids []string) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}
