package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// ErrReservesNone: the set is not Reserving.
var ErrReservesNone = errors.New("cannot reserve items")

// ErrNoReservation is returned by Commit and Release for a reservation that the set does not
// know, or no longer knows; nothing was changed.
var ErrNoReservation = errors.New("reservation is unknown")

// Reservation identifies the keys that one call of Reserve has taken. It is random, so that it
// cannot be guessed.
type Reservation bloom.Hash

// NewReservation returns a new random Reservation.
func NewReservation() Reservation {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return Reservation{Hi: binary.BigEndian.Uint64(b[:]), Lo: binary.BigEndian.Uint64(b[8:])}
}

// String returns the reservation in 32 hex digits.
func (r Reservation) String() string { return fmt.Sprintf("%016x%016x", r.Hi, r.Lo) }

// ParseReservation parses the result of String; false: the text is not valid.
func ParseReservation(text string) (Reservation, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return Reservation{}, false
	}
	return Reservation{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
}

// Reserving is a Set that can give new keys to one caller for a while; they are remembered when
// the caller commits. A key is new, reserved (by one reservation, until its lease ends), or seen.
// The end of a lease by itself makes its keys new; but until somebody else has taken a key, its
// reservation can still commit or release it.
//
// To the other methods a key with a running lease is not new: Add and Has report it as seen, and
// neither take nor end the lease. Add of a key whose lease has ended takes the key. Forget ends
// the lease of a reserved key, which then is new and lost to its reservation; it does not count
// the key, which was not seen.
//
// On a nil error the changes of a call are as durable as those of Add, leases included: a process
// that is killed and restarted, and other daemons of a shared store, know them. On ErrNoSpace,
// ErrFull, ErrUnavailable, without ErrInDoubt, and ErrNoReservation nothing was changed; on any
// other error some keys may be changed, and the call can be repeated. Each key is changed in one
// step: of many simultaneous callers, one gets it. Without keys a call does nothing.
type Reserving interface {
	Set
	// Reserve takes the new keys for the reservation id, for a lease that starts now, and sets
	// fresh[i] to whether keys[i] was taken; of equal keys only the first is. len(fresh) ==
	// len(keys). A repeated call with the same id, even while the first is running, also returns
	// the keys that the id already holds, with the first call's lease. lease must come from Lease.
	Reserve(ctx context.Context, id Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (Reserved, error)
	// Commit makes keys of a reservation seen: those that it holds, and those whose lease has
	// ended but that nobody else has taken. lost[i] says that keys[i] is none of these: another
	// has taken it, it was forgotten or released, or was never the reservation's; len(lost) ==
	// len(keys). Keys that the same reservation has already committed count as done, and do not
	// change, even if they were forgotten since: so a call whose answer was lost can be repeated.
	// keys nil: all that the reservation has taken and not released; lost is nil then.
	// In a Timed set the keys are seen for expire from now on, in whole milliseconds. 0 means the
	// expire of its Spec, and is an error if that has none. For other sets expire is 0.
	Commit(ctx context.Context, id Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (Settled, error)
	// Release makes keys of a reservation new, as Commit makes them seen. Keys that the same
	// reservation has already released count as done, committed ones as lost. keys nil: all
	// that it has taken and not committed.
	Release(ctx context.Context, id Reservation, keys []bloom.Hash, lost []bool) (Settled, error)
}

// Reserved is the outcome for the keys of a Reserve; the others are seen, or equal to an earlier one.
type Reserved struct {
	Fresh int // taken
	Held  int // reserved by others
}

// Settled is the outcome for the keys of a Commit or Release.
type Settled struct {
	Done int // equal ones are counted once
	Lost int
}

const (
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
	// KeptSettled is the least time that a reservation is known after its last key was committed
	// or released, and after its lease has ended.
	KeptSettled = 10 * time.Minute
)

// Known returns how long a reservation is known, counted from Reserve: until then Commit and
// Release can be called, and repeated. Once all its keys are committed or released, it is
// known for KeptSettled from then on, if that ends earlier.
func Known(lease time.Duration) time.Duration { return lease + max(lease, KeptSettled) }

// Lease converts seconds to a time in whole milliseconds, rounded up. An error says what seconds
// may be.
func Lease(seconds float64) (time.Duration, error) {
	d, ok := WholeMilliseconds(seconds, MaxLease)
	if !ok {
		return 0, fmt.Errorf("lease: %.15g s: want more than 0, and at most %.0f (a day)", seconds, MaxLease.Seconds())
	}
	return d, nil
}

// Reserving returns the filter's set as a Reserving, or a *KindError.
func (f *Filter) Reserving() (Reserving, error) {
	return As[Reserving](f.Spec, f.Set, ErrReservesNone)
}

// Reserve is Reserve of the filter's set, but obeys the bound on memory. At the bound, a batch
// without new keys gets its answer, with no key counted as held; any other gets ErrFull.
// Reserved keys can still be committed and released then.
func (f *Filter) Reserve(ctx context.Context, id Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (Reserved, error) {
	set, err := f.Reserving()
	if err != nil {
		return Reserved{}, err
	}
	claimed, done, err := f.claimFor(keys, fresh, func(n int) More { return More{Items: n, Reserved: n} }, func() error { return set.Has(ctx, keys, fresh) })
	if err != nil || done {
		return Reserved{}, err
	}
	defer f.unclaim(claimed)
	return set.Reserve(ctx, id, keys, lease, fresh)
}
