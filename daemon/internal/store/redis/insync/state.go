// Package insync tells when the servers of a Redis have everything that was acknowledged, and
// makes daemons take the steps of resyncing together. It knows nothing about what is resynced.
//
// A server is in sync while it is known to have everything that was acknowledged.
//
// Each start of a Redis server has its own run id, and no connection survives a restart. So
// every connection that carries batches first asks for the run id, and is refused if that
// server has not been resynced: no batch ever reaches a server that may have lost data. A flush
// keeps the run id, but shows in the heads of the stripes, which every single test-and-set
// reads. A daemon that finds data lost changes the key urifilter:incarnation, so that every
// daemon learns of it.
//
// Resyncing has two steps, and each waits for all daemons: first every daemon stops sending
// batches, then every daemon puts back what it knows. Before both are done, an item that only
// another daemon knows could look new. If a server loses data again meanwhile, both are repeated,
// see Markers.
package insync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// ErrLost means that a stripe, or the registry, is gone from Redis.
var ErrLost = errors.New("redis has lost data")

// ErrMerged means that Redis has more than all daemons know.
var ErrMerged = errors.New("the archive was restored into a filter with several layers, which all daemons read again")

// State is what this daemon knows about whether the servers are in sync. Its methods may be
// called by several goroutines.
type State struct {
	Epoch atomic.Uint64 // grows whenever a server turns out not to be in sync
	Wake  chan struct{} // the resyncer has work

	// Flight is read-locked by batches, those that only look included, from before they check whether
	// the servers are in sync.
	Flight sync.RWMutex

	mu       sync.Mutex
	synced   bool            // all servers are in sync
	why      error           // if not
	resynced map[string]bool // run ids of servers that have everything
	// incarnation is the value of its key when all were last in sync.
	incarnation string
	// stale is the incarnation in which data was found to be missing or added since then; "": none.
	stale string
}

// NewState returns the state of a daemon that has not connected yet.
func NewState() *State {
	return &State{Wake: make(chan struct{}, 1), why: errors.New("not yet connected"), resynced: map[string]bool{}}
}

// Check returns why no batch may be sent now, or nil if one may. The epoch changes with each
// invalidation.
func (t *State) Check() (epoch uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.synced {
		return 0, fmt.Errorf("%w: %w", engine.ErrUnavailable, t.why)
	}
	return t.Epoch.Load(), nil
}

// Invalidate says that a server may lack data, and wakes the resyncer.
func (t *State) Invalidate(why error) {
	t.mu.Lock()
	t.Epoch.Add(1)
	t.synced, t.why = false, why
	if t.stale == "" && (errors.Is(why, ErrLost) || errors.Is(why, ErrMerged)) {
		t.stale = t.incarnation
	}
	t.mu.Unlock()
	select {
	case t.Wake <- struct{}{}:
	default:
	}
}

// Note records why the resyncer has not finished.
func (t *State) Note(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.synced {
		t.why = why
	}
}

// Validate marks the servers as in sync, unless there was an invalidation since epoch, and
// reports whether it did so.
func (t *State) Validate(epoch uint64, runIDs []string, incarnation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Epoch.Load() != epoch {
		return false
	}
	t.resynced = map[string]bool{}
	for _, id := range runIDs {
		t.resynced[id] = true
	}
	t.synced, t.why, t.stale, t.incarnation = true, nil, "", incarnation
	return true
}

func (t *State) Knows(runID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resynced[runID]
}

// WasSynced reports whether the servers were ever in sync.
func (t *State) WasSynced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resynced) > 0
}

// AnyNew tells whether one of the servers was started since all were last in sync.
func (t *State) AnyNew(runIDs []string) bool {
	return slices.ContainsFunc(runIDs, func(id string) bool { return !t.Knows(id) })
}

// Stale returns the incarnation that must be replaced, if it is still current: data was lost in it, or it is
// that of other masters than these. "": there is none. A master that comes back need not have been
// restarted, and has its run id of then: without a new incarnation its incident would be that of then, at
// which all daemons have announced themselves, and nobody would wait for anybody.
func (t *State) Stale(runIDs []string) string {
	isNew := t.AnyNew(runIDs)
	t.mu.Lock()
	defer t.mu.Unlock()
	if isNew && t.stale == "" {
		return t.incarnation
	}
	return t.stale
}

// LostAgain says that data was lost while an incarnation was resynced: the next resync replaces it.
func (t *State) LostAgain(incarnation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = incarnation
}

func (t *State) IsCurrent(incarnation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.incarnation == incarnation
}

// OnConnect checks the server behind a new connection for batches.
func (t *State) OnConnect(ctx context.Context, c *redis.Conn) error {
	id, err := servers.MasterRunID(ctx, c)
	if errors.Is(err, servers.ErrSentinel) {
		return nil // it holds no data, and tells where the master is
	}
	if err != nil {
		return err
	}
	if !t.Knows(id) {
		t.Invalidate(fmt.Errorf("redis has restarted (run id %.8s); resyncing", id))
		return servers.ErrNotSynced
	}
	return nil
}

// A flush keeps the run id of a server, so it may go unnoticed while daemons resync: an operator flushes
// the masters of a cluster one after the other. What a daemon has put back is then gone, and another
// daemon that finds a stripe missing creates it from what it alone knows; nobody would find anything
// missing afterwards. Therefore each daemon leaves keys of its own, the markers, before it says that it
// has stopped: one on each master. It looks for them when all daemons have put back what they know.

const markerPrefix = "urifilter:witness:"

// ErrLostAgain means that a server lost data while it was being resynced.
var ErrLostAgain = errors.New("redis has lost data again during the resync; repeating it")

// Markers are keys of this daemon that are gone when a server has lost data.
type Markers struct {
	admin redis.UniversalClient
	keys  []string
}

// LeaveMarkers leaves a key on each master.
func (b *Barrier) LeaveMarkers(ctx context.Context) (*Markers, error) {
	keys, err := b.servers.OnEach(ctx, func(tag string) string { return markerPrefix + tag + ":" + b.members.Self })
	if err != nil {
		return nil, err
	}
	_, err = b.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			servers.Always(ctx, p, "set", key, "1", "px", members.AnnouncedTTL.Milliseconds())
		}
		return nil
	})
	return &Markers{b.servers.Admin, keys}, err
}

// Remove removes the markers. It returns ErrLostAgain if one of them was gone.
func (w *Markers) Remove(ctx context.Context) error {
	removed := make([]*redis.IntCmd, len(w.keys))
	_, err := w.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range w.keys {
			removed[i] = p.Del(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range removed {
		if n.Val() == 0 {
			return ErrLostAgain
		}
	}
	return nil
}

// A daemon that does not answer while Redis is resynced is abandoned: the others go on without
// it, and give out items that Redis has lost. These may include items that the abandoned daemon
// holds unacknowledged, so it forgets them when it comes back: nobody is told twice that an
// item is new. Its callers were told that the outcome is unknown.

const abandonedPrefix = "urifilter:abandoned:"

// abandonedTTL is how long the note is kept for a daemon that comes back.
const abandonedTTL = 24 * time.Hour

// abandon notes the daemons that nobody waits for any more, before any daemon serves. It does
// so at each resync, because Redis may have lost the notes of an earlier one.
func (b *Barrier) abandon(ctx context.Context, daemons []string) error {
	if len(daemons) == 0 {
		return nil
	}
	_, err := b.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range daemons {
			servers.Always(ctx, p, "set", abandonedPrefix+id, "1", "px", abandonedTTL.Milliseconds())
		}
		return nil
	})
	return err
}

// NotAbandoned must be called before this daemon gives out by itself, or publishes, the items
// that it holds. It returns ErrLost if the others went on without this daemon: Redis has lost
// data since then.
func (b *Barrier) NotAbandoned(ctx context.Context, c redis.UniversalClient) error {
	n, err := c.Exists(ctx, abandonedPrefix+b.members.Self).Result()
	if err == nil && n > 0 {
		err = ErrLost
	}
	return err
}

// Abandoned reports whether the others went on without this daemon. Returned ends that state.
func (b *Barrier) Abandoned(ctx context.Context) (bool, error) {
	err := b.NotAbandoned(ctx, b.servers.Admin)
	if errors.Is(err, ErrLost) {
		return true, nil
	}
	return false, err
}

// Returned removes the note that this daemon was abandoned.
func (b *Barrier) Returned(ctx context.Context) error {
	return b.servers.Admin.Del(ctx, abandonedPrefix+b.members.Self).Err()
}
