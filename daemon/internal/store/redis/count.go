package redis

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
)

// countEvery is the pause between two stripes: Redis counts the bits of one in about a
// millisecond, during which it does nothing else.
const countEvery = 250 * time.Millisecond

// counter asks Redis for the number of bits set, for the estimates: one stripe of one
// filter at a time, so that the load does not grow with the filters.
func (s *Store) counter(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var rest []base.Filter
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(rest) == 0 {
			rest = s.all()
		}
		if _, err := s.state.Check(); err != nil {
			continue
		}
		for len(rest) > 0 {
			c, ok := rest[0].(base.Counted)
			if !ok {
				rest = rest[1:]
				continue
			}
			last, err := c.CountNext(ctx)
			if err != nil && ctx.Err() == nil {
				s.log.Debug("count bits in redis", "filter", rest[0].Base().Spec.Name, "err", err)
			}
			if last || err != nil {
				rest = rest[1:]
			}
			break
		}
	}
}
