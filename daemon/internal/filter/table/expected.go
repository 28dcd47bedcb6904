package table

import (
	"sort"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/poisson"
)

// Expected returns the average memory in bytes of a table like t after n keys were added and none
// expired or was removed. A real table differs by chance, by some pages of 4 KiB for each 16 of its
// 256 parts: a few per cent below a million keys.
func (t *Table) Expected(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	p := part{shape: t.shape}
	mean := float64(n) / parts
	// The sizes of a part that grows key by key, each with the smallest number of keys that needs it.
	type step struct {
		from uint64
		size float64
	}
	var steps []step
	for used := 0; float64(used) <= 2*mean+100; {
		size := p.sizeFor(used + 1)
		steps = append(steps, step{uint64(used + 1), float64(size)})
		homes := p.slotsIn(size) - overflow
		used = homes * p.fullLoad / 100 // with one more it is rebuilt
	}
	each := poisson.Mean(mean, func(keys uint64) float64 {
		if keys == 0 {
			return 0
		}
		i := sort.Search(len(steps), func(i int) bool { return steps[i].from > keys })
		return steps[i-1].size
	})
	return uint64(each * parts)
}
