package kind

import "github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"

// SlotBytes is the size of a slot in the journal.
const SlotBytes = 16

// Contents are what a filter is predicted for.
type Contents struct {
	Items uint64
	// IDBytes is how long the ids of documents are, for kinds that keep them.
	IDBytes int
	// InRedis tells that the filter is in Redis, where bit-maps may be of another format.
	InRedis bool
}

// Size is what a filter with given contents takes, in bytes. Tests hold it against what real
// ones take.
type Size struct {
	Memory  uint64 // as Memory.Bytes tells it; for kinds that grow item by item an average
	File    uint64 // of the file that a checkpoint writes
	Journal uint64 // of an item in the journal, without the heads of records
	// Layers are the layers of a bit-map, one where it is of fixed size; nil without a bit-map.
	Layers []bloom.Header
	// Next is what a bit-map that grows takes more, once it passes what these layers are made
	// for; 0: it does not grow, or cannot any further.
	Next uint64
	// FalsePositives is the share of new items that is expected to be taken for seen at the
	// end; 0: none.
	FalsePositives float64
}
