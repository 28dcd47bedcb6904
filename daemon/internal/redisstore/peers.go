package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Several daemons share one Redis, and each knows best what it acknowledged itself. When
// Redis has lost data, one daemon's memory is not enough: an item that another daemon
// acknowledged would be new again until that one has healed too. So every daemon leaves a
// sign of life each second, remembers whose signs it has seen, and after a loss waits for
// those, or until they are taken for dead.
const (
	pollEvery = time.Second
	retryHeal = 300 * time.Millisecond
	// peerDead is how long a daemon may give no sign before nobody waits for it.
	peerDead = 10 * time.Second
	// healMost is how long one that gives signs, and is still not done, is waited for.
	healMost = 2 * time.Minute
	// newcomerWait lets running daemons sign into an empty Redis before a daemon that
	// has just started, and knows of nobody, takes it for a new one.
	newcomerWait = 1500 * time.Millisecond
	healedTTL    = 24 * time.Hour
	forgetSigns  = time.Hour
)

// peers are the other daemons. Times are of this machine: a sign is one that changed.
type peers struct {
	self string
	mu   sync.Mutex
	seen map[string]peer
	read time.Time // when the signs were last read
}

func (p *peers) lastRead() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

type peer struct {
	sign string
	at   time.Time
}

// note takes in the members as read from Redis.
func (p *peers) note(members map[string]string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = now
	for id, sign := range members {
		if old, ok := p.seen[id]; id == p.self || ok && old.sign == sign {
			continue
		}
		if strings.HasPrefix(sign, goodbye) {
			delete(p.seen, id)
			continue
		}
		if age, ok := signAge(sign, now); !ok || age > time.Minute {
			continue // left by a daemon long gone; clocks are not that wrong
		}
		p.seen[id] = peer{sign, now}
	}
	for id, old := range p.seen {
		if now.Sub(old.at) > forgetSigns {
			delete(p.seen, id)
		}
	}
}

// signAge is how old a sign is by the clocks of this machine and its giver's.
func signAge(sign string, now time.Time) (time.Duration, bool) {
	ms, err := strconv.ParseInt(strings.TrimPrefix(sign, goodbye), 10, 64)
	return now.Sub(time.UnixMilli(ms)), err == nil
}

// alive lists those that gave a sign within peerDead before now.
func (p *peers) alive(now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for id, peer := range p.seen {
		if now.Sub(peer.at) < peerDead {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return ids
}

// goodbye begins the sign of a daemon that has stopped in order: what it acknowledged was
// in Redis, and it holds nothing that others should wait for.
const goodbye = "left "

// sign gives a sign of life and reads the others'.
func (s *Store) sign(ctx context.Context) error {
	var members *redis.MapStringStringCmd
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, membersKey, s.peers.self, time.Now().UnixMilli())
		members = p.HGetAll(ctx, membersKey)
		return nil
	})
	if err != nil {
		return err
	}
	now := time.Now()
	s.peers.note(members.Val(), now)
	for id, sign := range members.Val() {
		if age, ok := signAge(sign, now); !ok || age > forgetSigns {
			return s.admin.HDel(ctx, membersKey, id).Err() // one at a time will do
		}
	}
	return nil
}

// announce adds this daemon to the sets of those who have stopped, or healed.
func (s *Store) announce(ctx context.Context, keys ...string) error {
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.SAdd(ctx, key, s.peers.self)
			p.Expire(ctx, key, healedTTL)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.sign(ctx)
}

// together takes a step of healing, and waits for the other daemons to take it too.
func (s *Store) together(ctx context.Context, key string) error {
	if err := s.announce(ctx, key); err != nil {
		return err
	}
	return s.awaitPeers(ctx, key, s.awaited)
}

// awaitPeers waits until all of ids have announced themselves under key, have signed off,
// or are taken for dead.
func (s *Store) awaitPeers(ctx context.Context, key string, ids []string) error {
	start := time.Now()
	for {
		done, err := s.admin.SMembersMap(ctx, key).Result()
		if err != nil {
			return err
		}
		if err := s.sign(ctx); err != nil {
			return err
		}
		var missing []string
		alive := s.peers.alive(time.Now())
		most := peerDead
		for _, id := range append(ids, alive...) {
			if _, ok := done[id]; !ok && s.peers.knows(id) {
				missing = append(missing, id)
				if slices.Contains(alive, id) {
					most = healMost
				}
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Since(start) > most {
			s.log.Warn("daemons that shared this redis do not answer; what only they knew may be new again", "daemons", strings.Join(missing, " "))
			return nil
		}
		s.trust.still(fmt.Errorf("waiting for other daemons that share this redis: %s", strings.Join(missing, " ")))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *peers) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.seen[id]
	return ok
}

// poll gives signs of life, keeps the announcement from expiring, follows filters that
// other daemons make and drop, and notices masters that are new.
func (s *Store) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		epoch, err := s.trust.check()
		if err != nil {
			continue
		}
		if err := s.pollOnce(ctx, epoch); err != nil && ctx.Err() == nil {
			s.log.Debug("poll of redis", "err", err)
			if errors.Is(err, errLost) {
				s.trust.lose(err)
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
		if !s.trust.knows(id) {
			s.trust.lose(fmt.Errorf("redis has a new master (run id %.8s); healing", id))
			return nil
		}
	}
	inc, err := s.incarnation(ctx, "")
	if err != nil {
		return err
	}
	if !s.trust.trusts(inc) {
		s.trust.lose(errors.New("another daemon found that redis has lost data; healing"))
		return nil
	}
	in := incident(ids, inc)
	if err := s.announce(ctx, stoppedPrefix+in, healedPrefix+in); err != nil {
		return err
	}
	return s.follow(ctx, epoch)
}
