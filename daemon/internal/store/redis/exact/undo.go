package exact

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// Remove removes items from Redis, and from the count.
func (p places) Remove(ctx context.Context, keys []bloom.Hash) (forgotten.Removal, error) {
	p.counting.RLock()
	defer p.counting.RUnlock()
	r, err := p.Removals.Remove(ctx, p.Servers.Batches, keys, nil)
	p.uncount(r.Removed)
	return r, err
}

// Undo removes items that no caller was told of from Redis, and from the count.
func (p places) Undo(ctx context.Context, c redis.UniversalClient, items []forgotten.Untold) ([]forgotten.Untold, error) {
	p.counting.RLock()
	defer p.counting.RUnlock()
	removed, left, err := p.Removals.Undo(ctx, c, items, p.UnackedIsNew)
	p.uncount(removed)
	return left, err
}

func (s *Set) uncount(removed []bloom.Hash) {
	for _, key := range removed {
		s.items.add(rootOf(key), -1)
	}
}
