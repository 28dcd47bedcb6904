package table

import (
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// group is a batch ordered by parts: each lock is taken once, and the keys of one part
// are looked up together. Equal keys keep their order.
type group struct {
	order   []uint32 // indices into the batch
	from    [parts + 1]uint32
	entries []bloom.Hash // for OnChange
	count   int          // changed keys of the present lock
}

// group sorts a batch by counting.
func (t *Table) group(keys []bloom.Hash) *group {
	g := t.scratch.Get().(*group)
	g.order = slices.Grow(g.order[:0], len(keys))[:len(keys)]
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
		g.order[*at] = uint32(i)
		*at++
	}
	return g
}

// of returns the part of the order that lock l guards.
func (g *group) of(l int) []uint32 { return g.order[g.from[l*share]:g.from[(l+1)*share]] }

// touch asks the processor for the homes of up to touched keys, and does not wait for them. The
// caller holds the lock of their parts.
func (t *Table) touch(keys []bloom.Hash, order []uint32) {
	var homes [touched]uintptr
	n := 0
	for _, i := range order {
		hi, _ := split(keys[i])
		homes[n] = t.parts[keys[i].Hi>>56].address(hi)
		n++
	}
	prefetchLines(homes[:n])
}
