package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// ErrReservesNone is what sets lack that are not Reserving.
var ErrReservesNone = errors.New("cannot reserve items")

// ErrNoReservation is returned by Commit and Release for a reservation that the set does not
// know, or not any more; nothing was changed.
var ErrNoReservation = errors.New("reservation is unknown")

// Reservation names what one call of Reserve has taken. It is random, so that nobody can guess
// one that he was not given.
type Reservation bloom.Hash

// NewReservation makes one up.
func NewReservation() Reservation {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return Reservation{Hi: binary.BigEndian.Uint64(b[:]), Lo: binary.BigEndian.Uint64(b[8:])}
}

// String is the reservation in 32 hex digits.
func (r Reservation) String() string { return fmt.Sprintf("%016x%016x", r.Hi, r.Lo) }

// ParseReservation reads what String has written; false: it is nothing of the kind.
func ParseReservation(text string) (Reservation, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return Reservation{}, false
	}
	return Reservation{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
}

// Reserving is a Set whose new keys can be given to one caller for a while, to be remembered
// when he says so. To it a key is new, reserved (by one reservation, until its lease ends), or
// seen. A lease that has ended makes its keys new, without anybody's doing; but as long as nobody
// else has taken one, its reservation can still commit or release it.
//
// To the other methods a key with a lease that runs is not new: Add tells of it as of one that is
// seen, and neither takes nor ends the lease; Has likewise. Add of a key whose lease has
// ended takes it. Forget ends the lease of a key that is reserved, which then is new and lost to
// its reservation, and does not count it: it was not seen.
//
// What a call has changed on a nil error is durable as Add's work is, leases included: a
// process that is killed and started again, and other daemons of a shared store, know them. On
// ErrNoSpace, ErrFull, ErrUnavailable, without ErrInDoubt, and ErrNoReservation nothing was
// changed; on any other error some keys may be, and the call can be made again. Each key is
// changed in one step: of many callers at the same time one is given it. No keys is no work.
type Reserving interface {
	Set
	// Reserve takes the new keys for the reservation id until a lease from now on has ended, and
	// sets fresh[i] to whether keys[i] was taken; of equal ones the first is. len(fresh) ==
	// len(keys). A call that is made again with the same id, even while the first is on its way,
	// gives what it holds already once more, with the lease of the first. lease is one that Lease returns.
	Reserve(ctx context.Context, id Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (Reserved, error)
	// Commit makes keys of a reservation seen: those that it holds, and those whose lease has
	// ended that nobody else has taken. lost[i] tells that keys[i] is none of these: another has
	// taken it, it was forgotten or released, or was never the reservation's; len(lost) ==
	// len(keys). What the same reservation has committed before is done, and changes nothing, even
	// where it was forgotten since: so that a call can be made again whose answer was lost. keys
	// nil: all that the reservation has taken and not released; lost is nil then.
	// In a Timed set the keys are seen for expire from now on, in whole milliseconds, 0: as
	// its Spec has it, an error without one. Others take 0.
	Commit(ctx context.Context, id Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (Settled, error)
	// Release makes keys of a reservation new, as Commit makes them seen. What the same
	// reservation has released before is done, what it has committed is lost. keys nil: all
	// that it has taken and not committed.
	Release(ctx context.Context, id Reservation, keys []bloom.Hash, lost []bool) (Settled, error)
}

// Reserved is what became of the keys of a Reserve; the others are seen, or equal to one before.
type Reserved struct {
	Fresh int // taken
	Held  int // reserved by others
}

// Settled is what became of the keys of a Commit or Release.
type Settled struct {
	Done int // equal ones are counted once
	Lost int
}

const (
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
	// KeptSettled is how long a reservation is known at least after its last key was committed
	// or released, and after its lease has ended.
	KeptSettled = 10 * time.Minute
)

// Known is how long a reservation is known, counted from Reserve: Commit and Release
// can be made, and made again, until then. One of which all keys are committed or released is
// known for KeptSettled from then on, if that is less.
func Known(lease time.Duration) time.Duration { return lease + max(lease, KeptSettled) }

// Lease is the time that so many seconds are, in whole milliseconds, rounded up. An error says
// what seconds may be.
func Lease(seconds float64) (time.Duration, error) {
	ms := math.Ceil(seconds*1000 - 0.001) // see Expire
	if !(seconds > 0) || ms > float64(MaxLease/time.Millisecond) {
		return 0, fmt.Errorf("lease: %.15g s: want more than 0, and at most %.0f (a day)", seconds, MaxLease.Seconds())
	}
	return time.Duration(max(1, ms)) * time.Millisecond, nil
}

// Reserving is the filter's set as one, or a *KindError.
func (f *Filter) Reserving() (Reserving, error) {
	return As[Reserving](f.Spec, f.Set, ErrReservesNone)
}

// Reserve is that of the filter's set, with the bound on memory obeyed: at it, a batch
// of which nothing is new has its answer, with no key counted as held; another one ErrFull.
// What is reserved can be committed and released there.
func (f *Filter) Reserve(ctx context.Context, id Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (Reserved, error) {
	set, err := f.Reserving()
	if err != nil {
		return Reserved{}, err
	}
	if growing, ok := f.Set.(Growing); ok && f.most > 0 && growing.Memory() >= f.most {
		_, err := f.addToFull(ctx, growing, keys, fresh)
		return Reserved{}, err
	}
	return set.Reserve(ctx, id, keys, lease, fresh)
}
