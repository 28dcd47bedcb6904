package keyed

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/poisson"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Size returns what a filter takes, as kind.Kind says.
func (f Format) Size(c kind.Contents) kind.Size {
	s := kind.Size{Memory: f.New(engine.Identity{}, timing.SystemClock()).Expected(c.Items), File: f.expected(c.Items), Journal: 2 * kind.SlotBytes}
	if f.Short {
		s.Journal /= 2
	}
	return s
}

// expected returns the average size in bytes of a file of n entries, without reservations.
func (f Format) expected(n uint64) uint64 {
	blocks := table.Parts * poisson.Mean(float64(n)/table.Parts, func(n uint64) float64 {
		return float64((n + blockEntries - 1) / blockEntries)
	})
	return headBytes + n*uint64(f.EntryBytes()) + 8*uint64(blocks+1)
}
