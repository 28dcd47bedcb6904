package bitmap

import (
	"context"
	"encoding/binary"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// UnackedVersion is a string that counts what is put into the sets of unacknowledged items.
const UnackedVersion = "urifilter:unacknowledged"

func memberOf(key bloom.Hash) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), key.Hi)
	return binary.BigEndian.AppendUint64(b, key.Lo)
}

func keyOf(member string) (key bloom.Hash, ok bool) {
	if len(member) != 16 {
		return key, false
	}
	b := []byte(member)
	return bloom.Hash{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
}

// PublishUnacked puts what this daemon holds into the set in Redis, and tells the other daemons
// that there is something to read. It may be repeated.
func (s *Set) PublishUnacked(ctx context.Context, c redis.UniversalClient) error {
	if s.unacked.size.Load() == 0 && len(s.unacked.all()) == 0 {
		return nil
	}
	if err := s.Barrier.NotAbandoned(ctx, c); err != nil {
		return err
	}
	s.unacked.moving.Lock()
	defer s.unacked.moving.Unlock()
	for _, p := range s.unacked.next(s.Members.Self) {
		args := make([]any, 0, 1+len(p.keys))
		args = append(args, int(publicationTTL.Seconds()))
		for _, key := range p.keys {
			args = append(args, memberOf(key))
		}
		if err := publish.Run(ctx, c, []string{s.unackedKey, s.unackedKey + ":" + p.token}, args...).Err(); err != nil {
			return err
		}
		if err := c.Incr(ctx, UnackedVersion).Err(); err != nil {
			return err
		}
		s.unacked.sent(p.token)
	}
	return nil
}

// RefreshUnacked makes this daemon's copy of the set that of Redis. Nothing is put into the set from here
// meanwhile.
func (s *Set) RefreshUnacked(ctx context.Context) error {
	s.unacked.copying.Lock()
	defer s.unacked.copying.Unlock()
	s.unacked.moving.RLock()
	defer s.unacked.moving.RUnlock()
	members, err := s.Servers.Admin.SMembers(ctx, s.unackedKey).Result()
	if err != nil {
		return err
	}
	keys := make([]bloom.Hash, 0, len(members))
	for _, member := range members {
		if key, ok := keyOf(member); ok {
			keys = append(keys, key)
		}
	}
	s.unacked.copy(keys)
	return nil
}

// claim is a command for one item of the set in Redis.
type claim struct {
	redis.BoolCmd
	index int // in the batch
}

// NoRetry keeps go-redis from removing an item twice: the second time it does not exist.
func (*claim) NoRetry() bool { return true }

func (c *claim) verdict() servers.Verdict {
	switch err := c.Err(); {
	case err != nil:
		return servers.VerdictOf(err)
	case c.Val():
		return servers.Fresh
	}
	return servers.Seen
}

// askUnacked sends op, SREM or SISMEMBER, for those of keys whose indexes are in shared.
func (s *Set) askUnacked(ctx context.Context, op string, keys []bloom.Hash, shared []int) ([]claim, error) {
	if len(shared) == 0 {
		return nil, nil
	}
	claims := make([]claim, len(shared))
	enough := func() error { return nil }
	_, err := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		for k, i := range shared {
			claims[k] = claim{*redis.NewBoolCmd(ctx, op, s.unackedKey, memberOf(keys[i])), i}
			if err := p.Process(ctx, &claims[k]); err != nil {
				return err
			}
		}
		if op == "srem" {
			enough, err = s.Servers.Confirm(ctx, p)
		}
		return err
	})
	if err == nil {
		err = enough()
	}
	return claims, err
}

// takeUnacked sets isNew for those of keys that are unacknowledged, and are given out now. On an
// error the items that this call took, or may have taken, are in the claims.
func (s *Set) takeUnacked(ctx context.Context, keys []bloom.Hash, isNew []bool) ([]claim, error) {
	if s.unacked.size.Load() == 0 {
		return nil, nil
	}
	s.unacked.moving.RLock()
	defer s.unacked.moving.RUnlock()
	shared, own := s.unacked.find(keys, isNew)
	if own {
		if err := s.Barrier.NotAbandoned(ctx, s.Servers.Batches); err != nil {
			return notAsked(shared), err
		}
	}
	claims, err := s.askUnacked(ctx, "srem", keys, shared)
	if err != nil {
		return claims, err
	}
	for i := range claims {
		isNew[claims[i].index] = isNew[claims[i].index] || claims[i].Val()
	}
	return claims, nil
}

// hasUnacked is like takeUnacked, but only looks.
func (s *Set) hasUnacked(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	if s.unacked.size.Load() == 0 {
		return nil
	}
	s.unacked.moving.RLock()
	defer s.unacked.moving.RUnlock()
	claims, err := s.askUnacked(ctx, "sismember", keys, s.unacked.peek(keys, isNew))
	if err != nil {
		return err
	}
	for i := range claims {
		isNew[claims[i].index] = isNew[claims[i].index] || claims[i].Val()
	}
	return nil
}

// Unacknowledge keeps items that no caller was told of, and wakes the publisher.
func (s *Set) Unacknowledge(keys []bloom.Hash) {
	if left := s.unacked.hold(keys); left > 0 {
		s.Log.Error("more items are unacknowledged than can be kept; those beyond will look seen", "filter", s.Spec.Name, "items", left)
	}
	if len(keys) == 0 {
		return
	}
	s.Publish()
}

// ForgetUnacked implements base.Unacknowledging.
func (s *Set) ForgetUnacked() int { return s.unacked.forget() }

// notAsked returns claims that were not sent.
func notAsked(shared []int) []claim {
	claims := make([]claim, len(shared))
	for k, i := range shared {
		claims[k].index = i
		claims[k].SetErr(servers.ErrNotAsked)
	}
	return claims
}
