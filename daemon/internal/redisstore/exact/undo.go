package exact

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
)

// undo takes items out of Redis by c of which no caller was told. What is left waits.
func (s *Set) undo(ctx context.Context, c redis.UniversalClient, items []forgotten.Untold) error {
	if len(items) == 0 {
		return nil
	}
	s.counting.RLock()
	defer s.counting.RUnlock()
	removed, left, err := s.log.Undo(ctx, c, items, s.DoubtIsNew)
	for _, key := range removed {
		s.items.add(rootOf(key), -1)
	}
	s.undos.Add(left)
	return err
}

// undoPending is undo for what batches before have left.
func (s *Set) undoPending(ctx context.Context, c redis.UniversalClient) error {
	return s.undo(ctx, c, s.undos.Take())
}
