package timed

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
)

// Remove removes items from Redis.
func (p places) Remove(ctx context.Context, keys []bloom.Hash) (forgotten.Removal, error) {
	return p.Removals.Remove(ctx, p.Servers.Batches, keys, nil)
}

// Undo removes from Redis the items that no caller was told of. Calls that began before the
// failed batch had ended may have reported others as duplicates of them.
func (p places) Undo(ctx context.Context, c redis.UniversalClient, items []forgotten.Untold) ([]forgotten.Untold, error) {
	soon := p.mirror.Now() + p.Servers.Timeout().Milliseconds()
	var tooLate error
	in := items[:0:0]
	for _, item := range items {
		if item.Until <= soon {
			tooLate = itemset.ErrTooLate
			continue
		}
		in = append(in, item)
	}
	_, left, err := p.Removals.Undo(ctx, c, in, p.UnackedIsNew)
	if err != nil {
		return left, err
	}
	return left, tooLate
}
