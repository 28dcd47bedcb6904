package embedded

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// kind is what sets of one kind have of their own; everything else is in kept.
type kind struct {
	file  string // name of the file in the filter's folder
	width int    // slots of an entry in the journal
	parts int    // in how many parts a batch may come to the journal

	create func(engine.Spec, engine.Birth) (memory, error) // empty
	// read makes what the file has; from is the first journal segment that it does not
	// cover. Damage is an error that wraps bloom.ErrCorrupt.
	read func(path string) (m memory, from uint64, err error)
	// serve makes the set; k's journal is open.
	serve func(k *kept, m memory) engine.Set
}

// memory is what a filter has in memory.
type memory interface {
	stat() stat
	// apply takes in what the journal has, in its order. What is there already does no harm.
	apply(slots []bloom.Hash) error
	// write writes the file. Adds may go on: what was added before the call is in it.
	write(fs durable.FS, path string, from uint64) error
	bytes() uint64
	free() error
}

// perishable is a memory whose items expire.
type perishable interface {
	// stale tells whether the file should be written anew although the journal is short.
	stale(journaled int64) bool
	// sweep lets go of a part of what has expired. It is called every sweepEvery.
	sweep() error
}

// stat is what there is to know of a memory.
type stat struct {
	generation, items uint64
	blocks            int // pieces of the file that was read, each with a checksum
}

func kindOf(spec engine.Spec, clock timing.Clock) (kind, error) {
	switch spec.Kind {
	case engine.Bloom:
		return bloomKind(), nil
	case engine.Timing:
		return timingKind(clock), nil
	}
	return kind{}, fmt.Errorf("filter %s: kind %q: this version knows bloom and timing\nhint: use the urifilter that made it, or a newer one", spec.Name, spec.Kind)
}
