package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// A server is in sync while it is known to have everything that was acknowledged.
//
// Each start of a Redis has a run id of its own, and no connection outlives a start. So
// every connection on which batches travel asks for the run id first, and is refused if
// that server has not been resynced: no batch ever reaches one that may have lost data. A
// flush keeps the run id; it shows in the heads of the stripes, which every single
// test-and-set reads. The key urifilter:incarnation is changed by whoever finds data
// lost, so that every daemon learns of it.
//
// Resyncing has two steps, and each waits for all daemons: first everybody stops sending
// batches, then everybody puts back what it knows. Before both are done, an item that
// only another daemon knows could look new.

var (
	// errLost means that a stripe, or the registry, is gone from Redis.
	errLost = errors.New("redis has lost data")
	// errNotSynced refuses a connection for batches to a server that is not yet resynced.
	errNotSynced = errors.New("is not yet resynced")
	// errReplica refuses a connection to a server that is not a master: should it become
	// one without what the old one had, a new connection shows it.
	errReplica  = errors.New("is a replica")
	errSentinel = errors.New("is a sentinel")
)

type syncState struct {
	epoch atomic.Uint64 // grows whenever a server turns out not to be in sync
	wake  chan struct{} // the resyncer has work

	mu       sync.Mutex
	synced   bool            // all servers are
	why      error           // if not
	resynced map[string]bool // run ids of servers that have everything
	lost     bool            // data was seen to be gone since all were last in sync
	// incarnation is the value of its key when all were last in sync.
	incarnation string
}

func newSyncState() *syncState {
	return &syncState{wake: make(chan struct{}, 1), why: errors.New("not yet connected"), resynced: map[string]bool{}}
}

// check says why no batch may be sent now; nil when one may. The epoch changes with
// each invalidation.
func (t *syncState) check() (epoch uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.synced {
		return 0, fmt.Errorf("%w: %w", engine.ErrUnavailable, t.why)
	}
	return t.epoch.Load(), nil
}

// invalidate says that a server may lack data, and wakes the resyncer.
func (t *syncState) invalidate(why error) {
	t.mu.Lock()
	t.epoch.Add(1)
	t.synced, t.why = false, why
	t.lost = t.lost || errors.Is(why, errLost)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// note keeps why the resyncer has not come to an end.
func (t *syncState) note(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.synced {
		t.why = why
	}
}

// validate says that the servers are in sync, unless there was an invalidation since epoch.
func (t *syncState) validate(epoch uint64, runIDs []string, incarnation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch.Load() != epoch {
		return false
	}
	t.resynced = map[string]bool{}
	for _, id := range runIDs {
		t.resynced[id] = true
	}
	t.synced, t.why, t.lost, t.incarnation = true, nil, false, incarnation
	return true
}

func (t *syncState) knows(runID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.resynced[runID]
}

// wasSynced tells whether they were in sync once.
func (t *syncState) wasSynced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resynced) > 0
}

// anyNew tells whether one of the servers was started since all were last in sync.
func (t *syncState) anyNew(runIDs []string) bool {
	return slices.ContainsFunc(runIDs, func(id string) bool { return !t.knows(id) })
}

// stale is the incarnation that is to be replaced, if it is still there, because data
// was lost in it; "" when none is.
func (t *syncState) stale() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		return t.incarnation
	}
	return ""
}

func (t *syncState) isCurrent(incarnation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.incarnation == incarnation
}

// onConnect looks at the server behind a new connection for batches.
func (t *syncState) onConnect(ctx context.Context, c *redis.Conn) error {
	id, err := masterRunID(ctx, c)
	if errors.Is(err, errSentinel) {
		return nil // it holds no data, and tells where the master is
	}
	if err != nil {
		return err
	}
	if !t.knows(id) {
		t.invalidate(fmt.Errorf("redis was started anew (run id %.8s); resyncing", id))
		return errNotSynced
	}
	return nil
}

// masterRunID is the run id of a server that is a master.
func masterRunID(ctx context.Context, c interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
}) (string, error) {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	if field(info, "redis_mode") == "sentinel" {
		return "", errSentinel
	}
	replication, err := c.Info(ctx, "replication").Result()
	if err != nil {
		return "", err
	}
	if field(replication, "role") != "master" {
		return "", errReplica
	}
	id := field(info, "run_id")
	if id == "" {
		return "", errors.New("INFO server names no run_id: what listens there is not Redis or Valkey")
	}
	return id, nil
}

// runIDs asks all masters.
func (s *Store) runIDs(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	err := masters(ctx, s.admin, func(ctx context.Context, c *redis.Client) error {
		id, err := masterRunID(ctx, c)
		if err == nil {
			err = checkPolicy(ctx, c)
		}
		if err == nil && s.opt.Fsync {
			err = checkDurability(ctx, c)
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return err
	})
	slices.Sort(ids)
	return ids, err
}
