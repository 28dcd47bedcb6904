package exact

import (
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

func (m *memory) Reserve(id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) engine.Reserved {
	taken, others := m.keys.Take(bloom.Hash(id), keys, table.Still, lease.Milliseconds(), fresh)
	return engine.Reserved{Fresh: taken, Held: others}
}

func (m *memory) Commit(id engine.Reservation, keys []bloom.Hash, _ time.Duration, lost []bool) (engine.Settled, error) {
	done, known, err := m.keys.Commit(bloom.Hash(id), keys, table.Still, table.Kept, lost)
	if err == nil && !known {
		err = engine.ErrNoReservation
	}
	return engine.Settled(done), err
}

func (m *memory) Release(id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	done, known := m.keys.Release(bloom.Hash(id), keys, lost)
	if !known {
		return engine.Settled{}, engine.ErrNoReservation
	}
	return engine.Settled(done), nil
}

func (m *memory) Committable(id engine.Reservation) []bloom.Hash {
	return m.keys.Reserved(bloom.Hash(id), table.Released)
}

func (m *memory) Releasable(id engine.Reservation) []bloom.Hash {
	return m.keys.Reserved(bloom.Hash(id), table.Committed)
}

func (m *memory) FileReserves() bool { return m.reserves.Load() }
func (m *memory) SetFileReserves()   { m.reserves.Store(true) }

func (m *memory) Sweep() error {
	m.keys.SweepLeases()
	return nil
}

// Stale reports whether running leases would end too soon or too late after a restart.
func (m *memory) Stale(int64) bool {
	return m.keys.Reservations() > 0 && m.lag.Departed(m.time.Read())
}
