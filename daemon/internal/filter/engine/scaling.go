package engine

import (
	"context"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Hashing is a Set that hashes items in a way of its own, without a secret.
type Hashing interface {
	Set
	Hash(item []byte) bloom.Hash
}

// Dumped is a Set in the layout of RedisBloom, which can be read and loaded in pieces.
type Dumped interface {
	Growing
	Hashing
	// Layers describes the set as BF.INFO does.
	Layers() ScalingLayers
	// Chunk returns the part of a dump after iterator, which is 0 for the head and 1 for the first
	// bits, and the iterator of the part that comes then. The dump has ended with 0 and nothing.
	// Parts do not overlap; what is added while they are read may be missing. ok is false if
	// there is no such part.
	Chunk(iterator int64) (next int64, data []byte, ok bool)
	// Load replaces an empty set by the one of a dump, durable on return.
	// An error wraps ErrConflict if the set has items, and bloom.ErrCorrupt if that is no dump.
	Load(ctx context.Context, head, bits []byte) error
}

// ScalingLayers describe a chain of Bloom filters.
type ScalingLayers struct {
	Layers    int
	Items     uint64
	Capacity  uint64 // of all layers
	Expansion uint64 // how many times as large a further layer is; 0: there is none
	Bytes     uint64 // as RedisBloom counts them
}

// Load is Load of the filter's set, which must be a Dumped, but obeys the bounds on memory.
func (f *Filter) Load(ctx context.Context, head, bits []byte) error {
	set := f.Set.(Dumped)
	if err := f.claimLeast(set.MemoryFor(More{}) + uint64(len(bits))); err != nil {
		return err
	}
	defer f.unclaimLeast()
	return set.Load(ctx, head, bits)
}
