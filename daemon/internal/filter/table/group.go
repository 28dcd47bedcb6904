package table

import (
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// group is a batch ordered by parts: each lock is taken once, and the keys of one part
// are looked up together. Equal keys keep their order.
type group struct {
	order   []uint32     // indices into the batch
	keys    []bloom.Hash // of these, as the table has them
	from    [parts + 1]uint32
	entries []bloom.Hash // for OnChange
	count   int          // changed keys of the present lock
}

// group sorts a batch by counting.
func (t *Table) group(keys []bloom.Hash) *group {
	g := t.scratch.Get().(*group)
	g.order = slices.Grow(g.order[:0], len(keys))[:len(keys)]
	g.keys = slices.Grow(g.keys[:0], len(keys))[:len(keys)]
	clear(g.from[:])
	for i := range keys {
		g.from[keys[i].Hi>>56+1]++
	}
	for i := range parts {
		g.from[i+1] += g.from[i]
	}
	next := g.from
	for i := range keys {
		at := &next[keys[i].Hi>>56]
		g.order[*at], g.keys[*at] = uint32(i), bloom.Hash{Hi: keys[i].Hi, Lo: keys[i].Lo & t.shape.lo}
		*at++
	}
	return g
}

// of returns the keys that lock l guards, and their places in the batch.
func (g *group) of(l int) (keys []bloom.Hash, order []uint32) {
	from, to := g.from[l*share], g.from[(l+1)*share]
	return g.keys[from:to], g.order[from:to]
}

// touch asks the processor for the homes of up to touched keys, and does not wait for them: for the
// two cache lines in which most keys are found, or for four, if keys may be inserted, which shifts
// the slots up to the next empty one. The caller holds the lock of their parts.
func (t *Table) touch(keys []bloom.Hash, insert bool) {
	var homes [2 * touched]uintptr
	n := 0
	for _, key := range keys {
		homes[n] = t.parts[key.Hi>>56].address(key.Hi << 8)
		if n++; insert {
			homes[n] = homes[n-1] + 128
			n++
		}
	}
	prefetchLines(homes[:n])
}
