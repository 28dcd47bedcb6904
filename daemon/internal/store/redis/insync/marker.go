package insync

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

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
