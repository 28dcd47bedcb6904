package bitmap

import (
	"context"
	"math"
	"sync"

	"github.com/redis/go-redis/v9"
)

// counts is how many bits were set in each stripe when Redis was last asked, and what this daemon
// has set since if it does not mirror them.
type counts struct {
	mu     sync.Mutex
	of     map[int]uint64
	total  uint64
	adds   uint64 // calls of add
	cursor int
}

// unknown is what added would have returned where nobody asked it: bits may have been added since.
const unknown = math.MaxUint64

// added returns how many times bits were added so far, for set.
func (c *counts) added() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.adds
}

// set takes what Redis has counted. If bits were added since added returned before, the count may lack them: then
// it only counts if it is more.
func (c *counts) set(stripe int, n, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]uint64{}
	}
	if c.adds != before {
		n = max(n, c.of[stripe])
	}
	c.total += n - c.of[stripe]
	c.of[stripe] = n
}

// add counts bits that this daemon has set since Redis was asked. Those that Redis has counted
// while their replies were on the way count twice, until it is asked again.
func (c *counts) add(stripe int, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]uint64{}
	}
	c.total += n
	c.of[stripe] += n
	c.adds++
}

func (c *counts) sum() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// next returns the stripe to count now.
func (c *counts) next(stripes int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.cursor
	c.cursor = (i + 1) % stripes
	return i
}

// CountNext implements base.Counted: it asks Redis how many bits are set in one stripe.
func (s *Set) CountNext(ctx context.Context) (last bool, err error) {
	if s.Enter() != nil {
		return true, nil
	}
	defer s.Use.RUnlock()
	layers := s.layers()
	l := layers[len(layers)-1] // the others are closed, and known
	i := l.counts.next(len(l.keys))
	last = i == len(l.keys)-1
	return last, s.count(ctx, l, i)
}

// count asks Redis how many bits are set in stripe i.
func (s *Set) count(ctx context.Context, l *layer, i int) error {
	before := l.counts.added()
	n, err := s.Servers.Admin.BitCount(ctx, l.keys[i], &redis.BitCount{Start: headBytes, End: -1}).Result()
	if err == nil {
		l.counts.set(i, uint64(n), before)
	}
	return err
}
