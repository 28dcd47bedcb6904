package apitest

import (
	"cmp"
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

var _ engine.Reserving = (*memExact)(nil)

func (m *memExact) Memory() uint64 { return m.timed.Memory() }

func (m *memExact) MemoryFor(more engine.More) uint64 { return m.timed.MemoryFor(more) }

func (m *memExact) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (engine.Reserved, error) {
	if err := cmp.Or(m.timed.store.err(), ctx.Err()); err != nil {
		return engine.Reserved{}, err
	}
	taken, others := m.timed.Keys().Take(bloom.Hash(id), keys, m.timed.Now(), lease.Milliseconds(), fresh)
	return engine.Reserved{Fresh: taken, Held: others}, nil
}

func (m *memExact) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, _ time.Duration, lost []bool) (engine.Settled, error) {
	if err := cmp.Or(m.timed.store.err(), ctx.Err()); err != nil {
		return engine.Settled{}, err
	}
	if keys == nil {
		keys = m.timed.Keys().Reserved(bloom.Hash(id), 0)
		lost = make([]bool, len(keys))
	}
	now := m.timed.Now()
	done, known, err := m.timed.Keys().Commit(bloom.Hash(id), keys, now, now+m.timed.expire.Milliseconds(), lost)
	if !known {
		err = engine.ErrNoReservation
	}
	return engine.Settled(done), err
}

func (m *memExact) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	if err := cmp.Or(m.timed.store.err(), ctx.Err()); err != nil {
		return engine.Settled{}, err
	}
	if keys == nil {
		keys = m.timed.Keys().Reserved(bloom.Hash(id), 0)
		lost = make([]bool, len(keys))
	}
	done, known := m.timed.Keys().Release(bloom.Hash(id), keys, lost)
	if !known {
		return engine.Settled{}, engine.ErrNoReservation
	}
	return engine.Settled(done), nil
}
