package timed

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// The key of a reserved item expires with the lease. So Add, which sets keys that do not exist,
// and Has, which looks for those that do, need not know about leases.

var (
	_ engine.Reserving = (*Set)(nil)
	_ base.Leasing     = (*Set)(nil)
)

// Reserve implements engine.Reserving.
func (s *Set) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (engine.Reserved, error) {
	ctx, end, err := s.BeginChange(ctx)
	if err != nil {
		return engine.Reserved{}, err
	}
	defer end()
	got, inDoubt, err := s.Leases.Reserve(ctx, id, keys, lease, fresh, 0, nil)
	if err != nil {
		return engine.Reserved{}, shared.InDoubt(s.EngineError(ctx, err), inDoubt, "reserved, committed or released")
	}
	return got, nil
}

// Commit implements engine.Reserving.
func (s *Set) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	if expire == 0 {
		expire = s.Spec.Expire()
	}
	if expire == 0 {
		return engine.Settled{}, fmt.Errorf("filter %s: neither filter nor call says when items expire", s.Spec.Name)
	}
	end, err := s.Begin()
	if err != nil {
		return engine.Settled{}, err
	}
	defer end()
	marks, until := s.Removals.Marks(), s.mirror.Now()+expire.Milliseconds()
	got, err := s.Leases.Commit(context.WithoutCancel(ctx), id, keys, expire, lost)
	if err == nil {
		s.Removals.Unforgotten(&marks, got.Now, func(keys []bloom.Hash) { s.reflect(keys, until) })
	}
	return s.Settled(ctx, got, err)
}
