package exact

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
)

// Fingerprints is a filter of the kind bloom with layout: fingerprints. It is a Set whose members
// are numbers of 32 bits, and whose sets are as many from the start as its capacity wants; up to
// that, few are split. Its items can be neither forgotten nor reserved, as those of any bloom filter.
//
// The first 12 bits of Hi and two more for each level of the base determine the set, and the low 32
// bits of Lo the member. A new item is taken for seen if another one with the same bits is there. Below
// the base sets are split by bits of the members, so further items, and not further splits, make
// this more probable.
type Fingerprints struct{ set }

// set is what a Fingerprints has of a Set.
type set interface {
	base.Filter
	base.Counted
	base.Forgetful
	base.Mirroring
	engine.Growing
	engine.Weighed
}

// atCapacity is how many members a set may have at the capacity: then a few of thousands have as many as
// those from which on they are split.
const atCapacity = encodedMost * 5 / 8

// largestBase is the level of 4 million sets: a capacity beyond 1.3e9 is reached by splits, so that
// what is asked for by mistake costs nothing.
const largestBase = 5

// NewFingerprints returns the filter of an entry, without anything in it.
func NewFingerprints(l *base.Link, e registry.Entry) Fingerprints {
	s := New(l, e)
	s.tree.fingerprints = true
	for s.tree.base < largestBase && e.Spec.Bound().Items > roots<<(fanBits*s.tree.base)*atCapacity {
		s.tree.base++
	}
	return Fingerprints{s}
}
