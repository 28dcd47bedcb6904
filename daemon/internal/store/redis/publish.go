package redis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
)

// publisher puts unacknowledged items where all daemons see them, as soon as Redis answers. While
// Redis is not in sync, this is left to the resync.
func (s *Store) publisher(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unpublished:
		}
		if err := s.publishAll(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("publish unacknowledged items", "err", err) // poll tries again
		}
	}
}

func (s *Store) publishAll(ctx context.Context) error {
	if _, err := s.state.Check(); err != nil {
		return err
	}
	var errs []error
	for _, f := range s.all() {
		if u, ok := f.(base.Unacknowledging); ok {
			errs = append(errs, u.PublishUnacked(ctx, s.servers.Batches))
		}
	}
	return errors.Join(errs...)
}

// followUnacked reads the sets in Redis if another daemon has added to one since they were last
// read, or always.
func (s *Store) followUnacked(ctx context.Context, always bool) error {
	version, err := s.servers.Admin.Get(ctx, bitmap.UnackedVersion).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	s.mu.Lock()
	same := s.unackedRead == version
	s.mu.Unlock()
	if same && !always {
		return nil
	}
	for _, f := range s.all() {
		if u, ok := f.(base.Unacknowledging); ok {
			if err := u.RefreshUnacked(ctx); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	s.unackedRead = version
	s.mu.Unlock()
	return nil
}
