package timed

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
)

var errTooLate = errors.New("an item is about to expire, and may then be another caller's")

// undo takes items out of Redis by c of which no caller was told. Others may have been called
// duplicates of them, by calls that the failed batch had not ended before. What is left waits.
func (s *Set) undo(ctx context.Context, c redis.UniversalClient, items []forgotten.Untold) error {
	if len(items) == 0 {
		return nil
	}
	soon := s.mirror.Now() + s.Servers.Timeout().Milliseconds()
	var tooLate error
	in := items[:0:0]
	for _, item := range items {
		if item.Until <= soon {
			tooLate = errTooLate
			continue
		}
		in = append(in, item)
	}
	_, left, err := s.log.Undo(ctx, c, in, s.DoubtIsNew)
	s.undos.Add(left)
	if err != nil {
		return err
	}
	return tooLate
}

// undoPending is undo for what batches before have left.
func (s *Set) undoPending(ctx context.Context, c redis.UniversalClient) error {
	err := s.undo(ctx, c, s.undos.Take())
	if errors.Is(err, errTooLate) {
		return nil // they expire
	}
	return err
}
