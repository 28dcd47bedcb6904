package bitmap

import (
	"context"
	"math"
	"sync"

	"github.com/redis/go-redis/v9"
)

// counts is how many bits are set in each stripe, as far as this daemon knows without mirroring
// them: when Redis was last asked, and by this daemon since.
//
// A batch whose replies are on the way when Redis counts may be in the count or not. So each
// stripe has two numbers, neither of which is ever more than what is set: one has what this
// daemon's batches were told, and what was counted while none was on the way; the other what was
// counted last, and what was set by batches that were sent later. The larger one counts. If no
// other daemon sets bits it is exact.
type counts struct {
	mu       sync.Mutex
	of       []count // by stripe
	total    uint64
	sent     uint64 // batches
	answered uint64 // of them
	cursor   int
}

type count struct {
	told    uint64
	counted uint64
	from    uint64 // batches from this one on were sent after counted
}

func (c *count) bits() uint64 { return max(c.told, c.counted) }

// send tells that a batch is about to be sent, and returns its number. answer must follow.
func (c *counts) send() (batch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.sent
}

func (c *counts) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered++
}

// busy is what quiet returns where a batch may be on the way.
const busy = math.MaxUint64

// quiet returns, for set, which batch was the last one if none is on the way. It is asked before
// Redis is.
func (c *counts) quiet() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent != c.answered {
		return busy
	}
	return c.sent
}

// set takes what Redis has counted since quiet returned before.
func (c *counts) set(stripe int, n, before uint64) {
	c.change(stripe, func(s *count) {
		s.counted, s.from = n, c.sent+1
		if c.sent == before {
			s.told = n
		}
	})
}

// add counts bits that a batch has set.
func (c *counts) add(stripe int, n, batch uint64) {
	c.change(stripe, func(s *count) {
		s.told += n
		if batch >= s.from {
			s.counted += n
		}
	})
}

func (c *counts) change(stripe int, do func(*count)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.of[stripe]
	before := s.bits()
	do(s)
	c.total += s.bits() - before
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
	before := l.counts.quiet()
	n, err := s.Servers.Admin.BitCount(ctx, l.keys[i], &redis.BitCount{Start: headBytes, End: -1}).Result()
	if err == nil {
		l.counts.set(i, uint64(n), before)
	}
	return err
}
