// Package kind says what a kind of filter is: what its filters remember in memory, and how
// that is written to a file and read from it. Package kinds lists the kinds that exist.
//
// It knows no store: the store on this machine decides when the file is written, and which
// journal goes with it. The settings with which filters of a kind are made are in package configs.
package kind

import (
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is what distinguishes the filters of one kind.
type Kind struct {
	Name string // as in the settings
	File string // name of the file in the filter's folder
	// Width is how many slots an entry of the journal has, Parts the number of pieces in which
	// a batch may come to the journal; 0: one.
	Width, Parts int
	// Checked names the parts of a file that were checked, with %d for their number.
	Checked string
	// Estimates tells that the number of items is an estimate.
	Estimates bool

	// New makes a memory that is empty, or has the dump of the identity.
	New func(engine.Spec, engine.Identity, timing.Clock) (Memory, error)
	// Read makes the memory that the file of a filter has; from is the first journal segment
	// that the file does not cover. The spec has no parameters if they cannot be read. Damage
	// is an error that wraps bloom.ErrCorrupt.
	Read func(spec engine.Spec, path string, clock timing.Clock) (m Memory, from uint64, err error)
	// BitMap makes the empty memory that a header describes, which may be one of an earlier
	// version. Nil: the kind has no bit-maps.
	BitMap func(bloom.Header) (BitMap, error)
	// Size predicts how much space a filter takes. Nil: it is not known.
	Size func(engine.Spec, Contents) (Size, error)
}

// Journal accepts what changes in a memory, before anybody else can see the change.
type Journal interface {
	Append(keys []bloom.Hash, fresh []bool) // entries of one slot: the fresh ones
	AppendEntries(slots []bloom.Hash)       // entries of several slots, all of them
}

// Memory is what one filter remembers. It is safe for concurrent use, but for Apply and
// Free. What it remembers, and what only some kinds can do, is found out by a type assertion:
// it is Keyed, perhaps as a BitMap (which may be Layered), Forgetful, Reserving or Expiring, or
// it is Similar; and it may be Sweeping.
type Memory interface {
	// Log sets where changes go. It is called once, before the first change.
	Log(Journal)
	// Apply adds what the journal has, in its order. What is in the memory already does no harm.
	Apply(slots []bloom.Hash) error
	// Write writes the file. Changes may go on: what was remembered before the call is in it.
	Write(fs disk.FS, path string, from uint64) error
	Seed() uint64
	Stats() engine.Stats
	// Checked is how many pieces of the file that was read have a checksum.
	Checked() int
	// Bytes is how much memory the items take.
	Bytes() uint64
	// MemoryFor is that of engine.Weighed.
	MemoryFor(engine.More) uint64
	Free() error
}

// Keyed is a memory of keys.
type Keyed interface {
	Memory
	// Add remembers keys and sets fresh[i] to whether keys[i] was not seen before; the first
	// of equal keys wins. It returns the number of fresh ones. After an error the memory is
	// unusable.
	Add(keys []bloom.Hash, fresh []bool) (int, error)
	// Has is Add without remembering.
	Has(keys []bloom.Hash, fresh []bool)
}

// BitMap is a memory that can be copied and merged by stripes.
type BitMap interface {
	Keyed
	Header() bloom.Header
	Prefetcher() bloom.Prefetcher
	Stripe(i int, buf []byte) []byte
	MergeStripe(i int, data []byte) error
	// Reach makes the bit-map, if it is one that grows, large enough to have stripe i. The error
	// says that there can be no such stripe, or no memory for it.
	Reach(i int) error
	// WriteWith is Write; more, if not nil, may set further bits in each stripe.
	WriteWith(fs disk.FS, path string, from uint64, more func(i int, stripe []byte) error) error
}

// Layered is a bit-map that grows by layers.
type Layered interface {
	BitMap
	// Memory is that of engine.Growing.
	Memory() uint64
	Layers() []bloom.Layer
	Outgrown() bool
}

// Forgetful is a memory that grows with its items, and can forget each of them.
type Forgetful interface {
	Keyed
	// Forget makes keys new again, in memory and in what goes to Log's journal, and returns
	// how many of them were seen.
	Forget(keys []bloom.Hash) int
	// Digests is that of engine.Listed.
	Digests(i int, dst []engine.Digest) []engine.Digest
}

// Sweeping is a memory that changes as time passes.
type Sweeping interface {
	Memory
	// Stale tells whether the file should be rewritten although the journal is short.
	Stale(journaled int64) bool
	// Sweep releases a part of the expired items. It is called every tenth of a second.
	Sweep() error
}

// Reserving is a memory whose new keys can be reserved, as engine.Reserving says.
type Reserving interface {
	Forgetful
	Sweeping
	// Reserve appends to Log's journal at most one entry more than there are keys, and so do
	// Commit and Release.
	Reserve(id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) engine.Reserved
	// Commit makes keys seen, for the time expire if items expire. An error that wraps
	// engine.ErrNoReservation means that nothing was done; after any other error the memory is
	// unusable.
	Commit(id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error)
	Release(id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error)
	// Committable returns what the reservation has taken and not released, Releasable what it
	// has taken and not committed; nothing if the reservation is unknown.
	Committable(id engine.Reservation) []bloom.Hash
	Releasable(id engine.Reservation) []bloom.Hash
	// FileReserves tells whether the files that Write writes are of a version that has
	// reservations. Older programs can read files of the other version, and would mistake what
	// the journal says about reservations for something else; so the first file of this version
	// is written after SetFileReserves and before anything is reserved.
	FileReserves() bool
	SetFileReserves()
}

// Expiring is a memory whose items expire.
type Expiring interface {
	Reserving
	// AddFor is Add for keys that are seen for a time.
	AddFor(keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error)
}

// Dumped is a memory in the layout of RedisBloom, see engine.Dumped.
type Dumped interface {
	Keyed
	Hash(item []byte) bloom.Hash
	Memory() uint64
	Layers() engine.ScalingLayers
	Chunk(iterator int64) (next int64, data []byte, ok bool)
}

// Similar is a memory of documents that grows with them, see engine.Similar.
type Similar interface {
	Memory
	Fingerprint(text string) (print uint64, ok bool)
	Distance() int
	// Slots is how many entries, of one slot each, Near may append to the journal for docs.
	Slots(docs []engine.Document) int
	// Near is that of engine.Similar. After an error the memory is unusable.
	Near(docs []engine.Document, how engine.Nearness, found []engine.Comparison) error
}
