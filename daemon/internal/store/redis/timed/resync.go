package timed

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Resend puts the items of the mirror into Redis, each for the rest of the time for which it
// counts as seen.
func (p places) Resend(ctx context.Context) error {
	var entries []table.Entry
	now := p.mirror.Now()
	for part := range table.Parts {
		entries = p.mirror.Part(part, now, entries[:0])
		for piece := range slices.Chunk(entries, servers.PieceItems) {
			if err := p.resend(ctx, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) resend(ctx context.Context, entries []table.Entry) error {
	now := s.mirror.Now()
	_, err := s.Servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range entries {
			if left := e.Until - now; left > 0 {
				p.Set(ctx, string(s.key(nil, e.Key)), "1", time.Duration(left)*time.Millisecond)
			}
		}
		return nil
	})
	return err
}

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
