package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// countEvery is the pause between two stripes: Redis counts the bits of one in about a
// millisecond, in which it does nothing else.
const countEvery = 250 * time.Millisecond

// counts is how many bits are set in each stripe in Redis, when last asked.
type counts struct {
	mu     sync.Mutex
	of     map[int]uint64
	total  uint64
	cursor int
}

func (c *counts) set(stripe int, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]uint64{}
	}
	c.total += n - c.of[stripe]
	c.of[stripe] = n
}

func (c *counts) sum() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// next is the stripe that is to be counted now.
func (c *counts) next(stripes int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.cursor
	c.cursor = (i + 1) % stripes
	return i
}

// countNext implements counted: it asks Redis how many bits are set in one stripe.
func (s *set) countNext(ctx context.Context) (last bool, err error) {
	if s.enter() != nil {
		return true, nil
	}
	defer s.use.RUnlock()
	i := s.counts.next(len(s.keys))
	last = i == len(s.keys)-1
	n, err := s.store.admin.BitCount(ctx, s.keys[i], &redis.BitCount{Start: headBytes, End: -1}).Result()
	if err == nil {
		s.counts.set(i, uint64(n))
	}
	return last, err
}

// counter asks Redis for the number of bits set, for the estimates: one stripe of one
// filter at a time, so that the load does not grow with the filters.
func (s *Store) counter(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var rest []filter
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(rest) == 0 {
			rest = s.all()
		}
		if _, err := s.sync.check(); err != nil {
			continue
		}
		for len(rest) > 0 {
			c, ok := rest[0].(counted)
			if !ok {
				rest = rest[1:]
				continue
			}
			last, err := c.countNext(ctx)
			if err != nil && ctx.Err() == nil {
				s.log.Debug("count bits in redis", "filter", rest[0].base().spec.Name, "err", err)
			}
			if last || err != nil {
				rest = rest[1:]
			}
			break
		}
	}
}
