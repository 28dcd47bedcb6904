package insync

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/redis/go-redis/v9"
)

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
