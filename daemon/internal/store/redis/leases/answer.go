package leases

import (
	"context"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Set is the part of a filter that is the same for all kinds whose items can be reserved.
type Set struct {
	*Leases
	Common *base.Common
	Begin  func() (end func(), err error) // begins a call, unless it cannot be answered now
}

// Release implements engine.Reserving.
func (s Set) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	end, err := s.Begin()
	if err != nil {
		return engine.Settled{}, err
	}
	defer end()
	got, err := s.Leases.Release(context.WithoutCancel(ctx), id, keys, lost)
	return s.Answer(ctx, got, err)
}

// Answer returns the answer to a Commit or Release.
func (s Set) Answer(ctx context.Context, got Settlement, err error) (engine.Settled, error) {
	if IsUnknown(err) {
		return engine.Settled{}, err
	}
	return got.Settled, shared.InDoubt(s.Common.EngineError(ctx, err), got.InDoubt, "reserved, committed or released")
}

// SweepLeases implements base.Leasing.
func (s Set) SweepLeases(ctx context.Context) error {
	end, err := s.Begin()
	if err != nil {
		return nil // not in sync, or dropped
	}
	defer end()
	return s.Sweep(ctx)
}
