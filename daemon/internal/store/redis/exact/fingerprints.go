package exact

import (
	"math"

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
const atCapacity = maxEncoded * 5 / 8

// largestBase is the level of 4 million sets: a capacity beyond 1.3e9 is reached by splits, so that
// what is asked for by mistake costs nothing.
const largestBase = 5

// NewFingerprints returns the filter of an entry, without anything in it.
func NewFingerprints(l *base.Link, e registry.Entry) Fingerprints {
	s := New(l, e)
	s.tree.fingerprints = true
	s.tree.base = baseOf(e.Spec.Bound().Items)
	return Fingerprints{s}
}

// baseOf is the level of the sets that a filter of this capacity has from the start.
func baseOf(capacity uint64) (level uint8) {
	for level < largestBase && capacity > roots<<(fanBits*level)*atCapacity {
		level++
	}
	return level
}

// What members and keys were measured to take in Redis 7 with its own allocator, at 20 to 400 members a set.
const (
	printBytes = 4.35 // a member of 32 bits; its array is rounded up to the allocator's next size
	setBytes   = 100  // a key, and what its set has beside its members
)

// ExpectedFingerprints is how much memory of Redis so many fingerprints of a filter with this capacity
// take, up to 3e10, and the share of new items that is taken for seen then.
func ExpectedFingerprints(capacity, items uint64) (bytes uint64, mistaken float64) {
	level := baseOf(capacity)
	n, sets := float64(items), float64(uint64(roots)<<(fanBits*level))
	mistaken = n / math.Ldexp(sets, 32)
	keys := sets * -math.Expm1(-n/sets) // those that are not empty
	for ; level < deepest && n > sets*maxEncoded*3/4; level++ {
		sets *= fan
		keys += sets
	}
	return uint64(n*printBytes + keys*setBytes), mistaken
}
