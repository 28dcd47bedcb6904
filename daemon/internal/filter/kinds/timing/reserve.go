package timing

import (
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

func (e *entries) Reserve(id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) engine.Reserved {
	taken, others := e.table.Keys().Take(bloom.Hash(id), keys, e.table.Now(), lease.Milliseconds(), fresh)
	return engine.Reserved{Fresh: taken, Held: others}
}

func (e *entries) Commit(id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	now := e.table.Now()
	done, known, err := e.table.Keys().Commit(bloom.Hash(id), keys, now, now+expire.Milliseconds(), lost)
	if err == nil && !known {
		err = engine.ErrNoReservation
	}
	return engine.Settled(done), err
}

func (e *entries) Release(id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	done, known := e.table.Keys().Release(bloom.Hash(id), keys, lost)
	if !known {
		return engine.Settled{}, engine.ErrNoReservation
	}
	return engine.Settled(done), nil
}

func (e *entries) Committable(id engine.Reservation) []bloom.Hash {
	return e.table.Keys().Reserved(bloom.Hash(id), table.Released)
}

func (e *entries) Releasable(id engine.Reservation) []bloom.Hash {
	return e.table.Keys().Reserved(bloom.Hash(id), table.Committed)
}

func (e *entries) FileReserves() bool { return e.reserves.Load() }
func (e *entries) SetFileReserves()   { e.reserves.Store(true) }
