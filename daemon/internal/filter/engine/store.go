package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Errors for callers to branch on; stores wrap them.
var (
	// ErrNoSpace: the store lacks the space to make the batch durable; nothing was remembered.
	ErrNoSpace = errors.New("no space left")
	// ErrUnavailable: the store cannot be reached, or cannot be trusted at present; nothing was
	// remembered.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrInDoubt: the store failed in the middle of the batch. Some of its items may have
	// been remembered, but were not reported as new. It wraps the cause, and takes precedence
	// over it.
	ErrInDoubt = errors.New("store broke off in the middle of the batch")
	// ErrFailed: the store failed and answers nothing more until it is opened again.
	ErrFailed = errors.New("store failed")
	// ErrFull: the filter is at capacity and its on_full is reject, or it uses all the memory
	// allowed; nothing was remembered.
	ErrFull = errors.New("filter is full")
	// ErrConflict: a filter with this name or id exists with other parameters.
	ErrConflict = errors.New("filter exists with other parameters")
)

// Identity holds the values that a new filter gets once, besides its Spec.
type Identity struct {
	Seed       uint64 // the secret used to hash items
	Generation uint64 // grows when a filter is re-created under its name
	Created    time.Time
	// Format, if not nil, is that of a bit-map of the same capacity and error rate that the new one
	// can be merged with.
	Format *bloom.Header
	// Dump, if not nil, is what the new filter has from the start. It must be a Dumped.
	Dump *Dump
}

// Stats is the present state of a filter.
type Stats struct {
	Items         uint64  // estimate; Timing: unexpired items, as last counted
	Fill          float64 // BitMap: ratio of bits set
	FPR           float64 // BitMap: estimate of the present false-positive ratio
	Bytes         uint64  // used by the items: by the bit-map or the table
	Generation    uint64
	LastWriteback time.Time // BitMap; zero: never
}

// Set is the memory of one filter. It is safe for concurrent use. Abilities of only some
// kinds are found by a type assertion: BitMap, Layered, Prefetching, Growing, Forgetful,
// Timed, Similar.
type Set interface {
	// Add remembers keys and sets fresh[i] to whether keys[i] was not seen before;
	// the first of equal keys wins. It returns the number of fresh ones.
	// On a nil error all of it is durable as the store's durability setting says.
	// On ErrNoSpace, ErrFull and ErrUnavailable, without ErrInDoubt, nothing was remembered,
	// whichever process uses the store next; on any other error keys may be.
	// len(fresh) == len(keys); without keys it does nothing.
	Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error)
	// Has is Add without remembering; equal keys in one call are all reported alike.
	Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error
	// Seed is the secret used to hash keys.
	Seed() uint64
	Stats() Stats
}

// Prefetching is a Set whose memory can be prefetched while keys are hashed.
type Prefetching interface {
	Set
	// Prefetcher fetches the memory that Add and Has will read. It is a hint: they need not be
	// called, and the set may be gone. It is called before every batch, so it must cost nothing.
	Prefetcher() bloom.Prefetcher
}

// Growing is a Set that uses more memory for more keys.
type Growing interface {
	Weighed
	// Memory returns how many bytes of this machine's memory the keys use at present, or will
	// use as soon as a batch has a new one.
	Memory() uint64
}

// Forgetful is a Set that can forget single keys.
type Forgetful interface {
	Set
	// Forget makes keys new again, and returns how many of them were seen; of equal keys only
	// the first counts. On a nil error that is as durable as the work of Add; on ErrNoSpace and
	// ErrUnavailable, without ErrInDoubt, nothing was forgotten; on any other error keys may
	// be. A key that is added at the same time is seen or not; all callers see the same
	// order.
	Forget(ctx context.Context, keys []bloom.Hash) (int, error)
}

// Timed is a Set whose keys expire: each is seen until its deadline, and from then on new.
// A seen key keeps the deadline from the call that found it new.
type Timed interface {
	Growing
	// AddFor is Add for keys that will be seen for expire from now on, in whole milliseconds.
	// Add uses the expire of the set's Spec, and returns an error if that has none.
	AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error)
}

// BitMap is a Set whose memory is a bit-map, which can be copied and merged.
type BitMap interface {
	Set
	// Header describes the bit-map.
	Header() bloom.Header
	// Stripe copies stripe i of the bit-map into buf (bloom.StripeBytes long) and returns
	// it cut to length. It includes everything added before the call.
	Stripe(ctx context.Context, i int, buf []byte) ([]byte, error)
	// MergeStripe sets all bits that are set in data, the bytes of stripe i. They are
	// durable after Commit. A growing bit-map accepts stripes of layers that it does not
	// have yet, up to bloom.MaxLayers.
	MergeStripe(ctx context.Context, i int, data []byte) error
	// Commit makes merged stripes durable.
	Commit(ctx context.Context) error
	// WrittenBack notes that the archive has everything added before at.
	WrittenBack(at time.Time)
}

// Layered is a BitMap that grows by layers.
type Layered interface {
	BitMap
	Growing
	// Layers describes all layers, the first one first.
	Layers() []bloom.Layer
	// Outgrown reports whether the last layer that there can be is full. It is called before every
	// batch.
	Outgrown() bool
}

// Store keeps the sets of all filters. It is safe for concurrent use.
type Store interface {
	// Load returns every filter that the store holds, ready for use.
	Load(ctx context.Context) (map[Spec]Set, error)
	// Create makes an empty filter, durable on return. The name must be free.
	Create(ctx context.Context, spec Spec, b Identity) (Set, error)
	// Drop forgets a filter and its items, durable on return. Other daemons that share the store
	// know it when Drop returns, those that do not answer excepted.
	Drop(ctx context.Context, spec Spec) error
	// Clear makes a filter empty, with the seed of b and its generation or a later one, in one
	// step and durable on return: whatever ends the process, Load returns either the old or the
	// cleared filter. serve is called with the set that replaces the one of spec, at about the
	// time from which calls of the old one return an *UnknownFilterError. Other daemons that
	// share the store use the new one when Clear returns. An error after serve was called says
	// that some of them may not.
	Clear(ctx context.Context, spec Spec, b Identity, serve func(Set)) error
	// Ready returns why batches would not be accepted now; nil if they would.
	Ready(ctx context.Context) error
	// Failed is closed when the store has failed permanently and the process should end.
	Failed() <-chan struct{}
	// Changes reports filters that other daemons have made, cleared or dropped in a shared store.
	// It is nil if the store is not shared.
	Changes() <-chan Change
	// Close makes everything durable and releases the store's resources.
	Close() error
}

// Numbers is a Store that records the ids it has given, so that none is given again: a
// caller that kept the id of a dropped filter would write into another one.
type Numbers interface {
	// TakeID gives an id of least or more to the new filter name: one above every id that was
	// given or noted before, durable on return, also between daemons that share the store.
	// Daemons that make the same filter at once get the same id.
	TakeID(ctx context.Context, name string, least int) (int, error)
	// NoteID prevents TakeID from giving id, which a caller chose. Durable on return.
	NoteID(ctx context.Context, id int) error
}

// Shared is a Store that several daemons use, so a filter may be gone before Changes
// has reported it.
type Shared interface {
	// Holds reports whether the store has a filter with this spec, even if cleared or made again.
	Holds(ctx context.Context, spec Spec) (bool, error)
	// CatchUp returns when Changes has reported, and the engine has taken, all that other daemons
	// had done when it was called. It wraps ErrUnavailable if that cannot be learnt.
	CatchUp(ctx context.Context) error
}

// Ending is a Set of a store that is Shared.
type Ending interface {
	// Ended reports whether the filter was dropped, or has another set. It is true before Drop returns, before
	// Clear calls serve, and before Changes reports it.
	Ended() bool
}

// Ended reports whether a set is known to have ended. Changes may report one that has: this daemon
// has dropped or cleared the filter since.
func Ended(set Set) bool {
	s, ok := set.(Ending)
	return ok && s.Ended()
}

// Change is a filter that another daemon made (use Set), dropped (Gone is no longer usable),
// or cleared (both).
type Change struct {
	Spec      Spec
	Set, Gone Set
	// Bad is in quarantine from now on, and Gone, if it was served, is no longer; Mended is in quarantine no
	// longer; nil: none.
	Bad, Mended *Quarantined
	// Taken, if not nil, is closed by the engine; nothing is changed.
	Taken chan<- struct{}
}
