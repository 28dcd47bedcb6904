// Package base has what filters of all kinds in Redis have in common: what the store asks of
// them, what they have of it, how one ends, and what an error of Redis means for them.
package base

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Filter is one filter, of whatever kind, as the store deals with it. What its methods do
// in Redis goes by the admin client, and may be repeated.
type Filter interface {
	engine.Set
	engine.Ending
	Base() *Common
	// Create makes what Redis must have of an empty filter, in the place of what another of
	// its name has left.
	Create(ctx context.Context) error
	// Load reads what is to be known here, and tells whether Redis has lost some of it.
	Load(ctx context.Context) (lost bool, err error)
	// Stop is called when no batch is under way, before the first daemon resyncs: it takes
	// out of Redis what does not count. started tells whether a server was.
	Stop(ctx context.Context, started bool) error
	// Resync puts back what is known here, and tells whether Redis had lost data.
	Resync(ctx context.Context) (gone bool, err error)
	// Free gives the memory back; nobody uses the filter any more.
	Free() error
}

// Counted is a filter of which Redis can count what Stats shows.
type Counted interface {
	// CountNext counts a part, and tells whether it was the last one.
	CountNext(ctx context.Context) (last bool, err error)
}

// Mirrored is a filter that takes some of what it knows from its mirror alone.
type Mirrored interface {
	// Reload reads what other daemons have put back, when all have, before anything is answered.
	Reload(ctx context.Context) error
}

// Mirror describes what a daemon has of a filter in its memory.
type Mirror struct {
	Bytes uint64
	// Partial tells that it has not all that this daemon has heard of: the items that it was asked
	// for, those that it knew, and those that it had to let go of.
	Partial               bool
	Asked, Found, Evicted uint64
}

// Mirroring is a filter that can describe its mirror.
type Mirroring interface{ Mirror() Mirror }

// Sweeping is a filter whose memory is brought to what it is to be bit by bit.
type Sweeping interface {
	// Sweep lets go of a part of what has expired, or gives a part of a mirror its size.
	Sweep() error
}

// Unacknowledging is a filter whose items that no caller was told of are kept for the next
// one that asks.
type Unacknowledging interface {
	// PublishUnacked puts what this daemon holds of them where all daemons see it, by c.
	PublishUnacked(ctx context.Context, c redis.UniversalClient) error
	// RefreshUnacked reads what all daemons see.
	RefreshUnacked(ctx context.Context) error
	// ForgetUnacked lets go of what was not published, and returns how many items that were.
	ForgetUnacked() int
}

// Leasing is a filter whose items can be reserved.
type Leasing interface {
	// SweepLeases lets go of reservations that have ended long ago.
	SweepLeases(ctx context.Context) error
}

// Forgetful is a filter of which single items can be forgotten.
type Forgetful interface {
	// InvalidateForgotten lets go of what may have been forgotten by others while this daemon was away.
	InvalidateForgotten()
}

// Link is what filters have of their store.
type Link struct {
	Servers  *servers.Servers
	Members  *members.Members
	State    *insync.State
	Barrier  *insync.Barrier
	Registry *registry.Registry
	Log      *slog.Logger
	// UnackedIsNew gives items whose replies were lost as new when they are asked for again
	// here, though another daemon's caller may have got them too.
	UnackedIsNew bool
	Mirrors      *budget.Budget // of the memory that mirrors take
	PollSoon     func()         // makes the store look at the registry at once
	Publish      func()         // tells it that there are items to publish
}

// ErrOther means that a key belongs to a filter that was re-created under this name.
var ErrOther = errors.New("belongs to another filter of this name")

var _ engine.Ending = (*Common)(nil)

// Common is what filters of all kinds have in common.
type Common struct {
	*Link
	registry.Entry

	Use   sync.RWMutex // read-held by all that use the memory, write-held to free it
	ended atomic.Bool
	freed bool

	// Bad is why the filter is in quarantine; nil: it is served. The store sets it.
	Bad atomic.Pointer[engine.Quarantined]
	// Suspect: a batch has met a key of another type. The store looks, and puts the filter into quarantine.
	Suspect atomic.Bool
}

// Base implements Filter.
func (k *Common) Base() *Common { return k }

// End makes the filter unusable from now on.
func (k *Common) End() { k.ended.Store(true) }

// Ended implements engine.Ending.
func (k *Common) Ended() bool { return k.ended.Load() }

// Enter read-holds Use, unless the filter has ended.
func (k *Common) Enter() error {
	k.Use.RLock()
	if k.Ended() {
		k.Use.RUnlock()
		return &engine.UnknownFilterError{Ref: k.Spec.Name}
	}
	return nil
}

// Check returns why no batch of the filter may be sent now, or nil if one may.
func (k *Common) Check() error {
	if bad := k.Bad.Load(); bad != nil {
		return &engine.QuarantinedError{Quarantined: *bad}
	}
	_, err := k.State.Check()
	return err
}

// Close ends a filter; those who use it are waited for.
func Close(f Filter) error {
	k := f.Base()
	k.End()
	k.Use.Lock()
	defer k.Use.Unlock()
	if k.freed {
		return nil
	}
	k.freed = true
	return f.Free()
}

// EngineError gives an error of Redis the engine's name, and invalidates the state of Redis where it
// shows that data is lost. What is gone because the filter was dropped is not lost: the
// entry in the registry goes first, long before the keys.
func (k *Common) EngineError(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.As(err, new(*engine.UnknownFilterError)), errors.Is(err, engine.ErrUnavailable), errors.Is(err, engine.ErrConflict):
		return err
	case strings.HasPrefix(err.Error(), "OOM"):
		return fmt.Errorf("%w: redis: %w\nhint: give Redis more memory (maxmemory), or drop a filter, which needs none", engine.ErrNoSpace, err)
	case strings.HasPrefix(err.Error(), "WRONGTYPE"):
		k.Suspect.Store(true)
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, registry.Foreign("urifilter:{"+fmt.Sprint(k.Spec.ID)+"-"+k.Spec.Name+":...}"))
	case errors.Is(err, insync.ErrLost), errors.Is(err, ErrOther):
		if dropped, _ := k.Registry.Dropped(ctx, k.Entry); dropped {
			k.PollSoon() // which forgets it
			// The batch may have made keys again that the cleaner had removed.
			if err := k.Registry.Unmake(ctx, k.Entry); err != nil {
				k.Log.Warn("keys of a dropped filter may be left in redis", "filter", k.Spec.Name, "err", err)
			}
			return &engine.UnknownFilterError{Ref: k.Spec.Name}
		}
		k.State.Invalidate(err)
	}
	return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
}
