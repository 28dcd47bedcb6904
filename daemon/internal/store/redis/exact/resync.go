package exact

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Create implements base.Filter.
func (s *Set) Create(ctx context.Context) error {
	s.look(ctx)
	return s.Set.Create(ctx)
}

// Load implements base.Filter.
func (s *Set) Load(ctx context.Context) (lost bool, err error) {
	if lost, err = s.Set.Load(ctx); err == nil { // else it is tried again, once a second
		s.look(ctx)
	}
	return lost, err
}

// Stop implements base.Filter.
func (s *Set) Stop(ctx context.Context, started bool) error {
	s.tree.forget()
	return s.Set.Stop(ctx, started)
}

// Resend puts into Redis what the mirror has.
func (p places) Resend(ctx context.Context) error {
	var keys []bloom.Hash
	for part := range table.Parts {
		keys = p.mirror.Part(part, keys[:0])
		for piece := range slices.Chunk(keys, servers.PieceItems) {
			if err := p.resend(ctx, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Set) resend(ctx context.Context, keys []bloom.Hash) error {
	return s.Removals.AtPlaces(ctx, keys, func(p redis.Pipeliner, key bloom.Hash, at forgotten.Place) redis.Cmder {
		cmd := p.SAdd(ctx, at.Key, at.Member)
		if g := forgotten.GroupOf(key); s.Removals.Reserving(g) { // it was committed, or taken after its lease
			p.HDel(ctx, s.Removals.LeasesKey(g), forgotten.Encode(key))
		}
		return cmd
	})
}

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
