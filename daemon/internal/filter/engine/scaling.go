package engine

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Hashing is a Set that hashes items in a way of its own, without a secret.
type Hashing interface {
	Set
	Hash(item []byte) bloom.Hash
}

// Dumped is a Set in the layout of RedisBloom, which can be read in pieces.
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
}

// ScalingLayers describe a chain of Bloom filters.
type ScalingLayers struct {
	Layers    int
	Items     uint64
	Capacity  uint64 // of all layers
	Expansion uint64 // how many times as large a further layer is; 0: there is none
	Bytes     uint64 // as RedisBloom counts them
}

// Dump is a whole Dumped: the head of its dump, and the bits of all parts after it.
type Dump struct{ Head, Bits []byte }

// CreateLoaded makes a filter, which must be a Dumped, of a dump in one step, durable on return: nobody
// finds it empty. It obeys the bounds on memory. An error wraps ErrConflict if there is such a filter
// already, and bloom.ErrCorrupt if that is no dump.
func (e *Engine) CreateLoaded(ctx context.Context, spec Spec, d Dump) error {
	bytes := uint64(len(d.Bits))
	if err := e.claimNew(bytes); err != nil {
		return fmt.Errorf("filter %s: %w", spec.Name, err)
	}
	defer e.memory.move(bytes, 0, true)
	b := newIdentity(1)
	b.Dump = &d
	f, created, err := e.create(ctx, spec, b, false)
	switch {
	case err != nil:
		return err
	case !created:
		return fmt.Errorf("filter %s: %w", spec.Name, ErrConflict)
	}
	f.weigh() // before what was claimed is given back
	return nil
}
