package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// What went wrong, for those who branch on it; stores wrap them.
var (
	// ErrNoSpace: the store cannot make the batch durable for want of space; nothing was remembered.
	ErrNoSpace = errors.New("no space left for new items")
	// ErrUnavailable: the store cannot be reached, or is not to be trusted, for now;
	// nothing was remembered.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrInDoubt: the store failed in the middle of the batch. Some of its items may have
	// been remembered without anybody being told that they are new. It wraps the cause, and
	// goes before it.
	ErrInDoubt = errors.New("store broke off in the middle of the batch")
	// ErrFailed: the store failed and answers nothing more until it is opened again.
	ErrFailed = errors.New("store failed")
	// ErrFull: the filter is at capacity and its on_full is reject, or takes as much memory as
	// it may; nothing was remembered.
	ErrFull = errors.New("filter is full")
	// ErrConflict: a filter of that name or id exists with other parameters.
	ErrConflict = errors.New("filter exists with other parameters")
)

// Identity is what a new filter gets once and for all, beside what it is.
type Identity struct {
	Seed       uint64 // the secret that items are hashed with
	Generation uint64 // grows when a filter of one name is re-created
	Created    time.Time
}

// Stats is what a filter can tell about its present state.
type Stats struct {
	Items         uint64  // estimate; Timing: those that are not expired, as last counted
	Fill          float64 // BitMap: ratio of bits set
	FPR           float64 // BitMap: estimate of the present false-positive ratio
	Bytes         uint64  // of what the items take: of the bit-map, of the table
	Generation    uint64
	LastWriteback time.Time // BitMap; zero: never
}

// Set is the memory of one filter. It is safe for concurrent use. What only some kinds
// can do is asked for by a type assertion: BitMap, Layered, Prefetching, Growing,
// Forgetful, Timed, Similar.
type Set interface {
	// Add remembers keys and sets fresh[i] to whether keys[i] was not seen before;
	// the first of equal keys wins. It returns the number of fresh ones.
	// On a nil error all of it is durable as the store's durability setting says.
	// On ErrNoSpace, ErrFull and ErrUnavailable, without ErrInDoubt, nothing was remembered,
	// by whichever process the store is asked next; on any other error keys may be.
	// len(fresh) == len(keys); no keys is no work.
	Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error)
	// Has is Add without remembering; equal keys in one call are all reported alike.
	Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error
	// Seed is the secret that keys are hashed with.
	Seed() uint64
	Stats() Stats
}

// Prefetching is a Set whose memory can be asked for while keys are hashed.
type Prefetching interface {
	Set
	// Prefetcher asks for what Add and Has will look at. It is a hint: they need not be called,
	// and the set may be gone. It is asked before every batch, so it must cost nothing.
	Prefetcher() bloom.Prefetcher
}

// Growing is a Set that takes more memory for more keys.
type Growing interface {
	Set
	// Memory is how many bytes of this machine's memory the keys take at present, or are to
	// take as soon as a batch has a new one. It is asked before every batch, so it must cost
	// nothing.
	Memory() uint64
}

// Forgetful is a Set that can forget single keys.
type Forgetful interface {
	Set
	// Forget makes keys new again, and returns how many of them were seen; of equal ones the
	// first was. On a nil error that is durable as Add's work is; on ErrNoSpace and
	// ErrUnavailable, without ErrInDoubt, nothing was forgotten; on any other error keys may
	// be. A key that is added at the same time is seen or not; in what order is for all
	// callers the same.
	Forget(ctx context.Context, keys []bloom.Hash) (int, error)
}

// Timed is a Set whose keys expire: each is seen until its deadline, and from then on new.
// A key that is seen keeps the deadline that the call gave it which found it new.
type Timed interface {
	Growing
	// AddFor is Add for keys that are to be seen for expire from now on, in whole
	// milliseconds. Add has the expire of the set's Spec, and is an error without one.
	AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error)
}

// BitMap is a Set whose memory is a bit-map, which can be copied and merged.
type BitMap interface {
	Set
	// Header describes the bit-map.
	Header() bloom.Header
	// Stripe copies stripe i of the bit-map into buf (bloom.StripeBytes long) and returns
	// it cut to length. What was added before the call is in it.
	Stripe(ctx context.Context, i int, buf []byte) ([]byte, error)
	// MergeStripe sets all bits that are set in data, the bytes of stripe i. They are
	// durable after Commit. A bit-map that grows takes stripes of layers that it does not
	// have yet, up to bloom.MaxLayers.
	MergeStripe(ctx context.Context, i int, data []byte) error
	// Commit makes merged stripes durable.
	Commit(ctx context.Context) error
	// WrittenBack notes that the archive has all that was added before at.
	WrittenBack(at time.Time)
}

// Layered is a BitMap that grows by layers.
type Layered interface {
	BitMap
	Growing
	// Layers describes each of them, the first one first.
	Layers() []bloom.Layer
}

// Store keeps the sets of all filters. It is safe for concurrent use.
type Store interface {
	// Load returns every filter that the store holds, ready for use.
	Load(ctx context.Context) (map[Spec]Set, error)
	// Create makes an empty filter, durable on return. The name must be free.
	Create(ctx context.Context, spec Spec, b Identity) (Set, error)
	// Drop forgets a filter and its items, durable on return.
	Drop(ctx context.Context, spec Spec) error
	// Clear makes a filter empty, with the seed of b and its generation or a later one, in one
	// step and durable on return: whatever ends the process, Load returns the filter as it was
	// or as it is then. serve is called with the set that takes the place of the one of spec,
	// at about the time from which calls of that one return an *UnknownFilterError. Other
	// daemons that share the store use the new one when Clear returns. An error after serve
	// was called says that this is not known of all of them.
	Clear(ctx context.Context, spec Spec, b Identity, serve func(Set)) error
	// Ready says why batches would not be accepted now; nil when they would.
	Ready(ctx context.Context) error
	// Failed is closed when the store has failed for good and the process should end.
	Failed() <-chan struct{}
	// Changes tells of filters that other daemons have made, cleared or dropped in a shared store.
	// It is nil where nobody else can.
	Changes() <-chan Change
	// Close makes everything durable and lets go of the store's resources.
	Close() error
}

// Numbers is a Store that keeps which ids it has given, so that none is given again: a
// caller that kept the number of a dropped filter would write into another one.
type Numbers interface {
	// TakeID gives an id of least or more to the filter name that is to be made: one above
	// every id that was given or noted before, durable on return, also between daemons that
	// share the store. Daemons that make the same filter at once get the same.
	TakeID(ctx context.Context, name string, least int) (int, error)
	// NoteID keeps TakeID from giving id, which a caller chose. Durable on return.
	NoteID(ctx context.Context, id int) error
}

// Shared is a Store that several daemons use, so that a filter may be gone before Changes
// has told of it.
type Shared interface {
	// Holds tells whether the store has a filter of that spec, be it cleared or made again.
	Holds(ctx context.Context, spec Spec) (bool, error)
}

// Change is a filter that another daemon made (Set is what to use), dropped (Gone is what
// is of no use any more), or cleared (both).
type Change struct {
	Spec      Spec
	Set, Gone Set
	// Bad is in quarantine from now on, Mended no more; nil: nothing.
	Bad, Mended *Quarantined
}
