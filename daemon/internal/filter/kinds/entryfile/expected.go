package entryfile

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/poisson"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// Expected returns the average size in bytes of a file of n entries, without reservations.
func (f Format) Expected(n uint64) uint64 {
	blocks := table.Parts * poisson.Mean(float64(n)/table.Parts, func(n uint64) float64 {
		return float64((n + blockEntries - 1) / blockEntries)
	})
	return headBytes + n*uint64(f.EntryBytes()) + 8*uint64(blocks+1)
}
