package insync

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A daemon that does not answer while Redis is resynced is abandoned: the others go on
// without it, and give out what Redis has lost. What it holds unacknowledged may be among
// that, so it forgets these items when it comes back: nobody is told twice that one is
// new. Its callers were told that the outcome is unknown.

const abandonedPrefix = "urifilter:abandoned:"

// abandonedTTL is how long a daemon that comes back learns of it.
const abandonedTTL = 24 * time.Hour

// abandon notes the daemons that nobody waits for any more, before anybody serves. It does so
// at each resync, for Redis may have lost the notes of an earlier one.
func (b *Barrier) abandon(ctx context.Context, daemons []string) error {
	if len(daemons) == 0 {
		return nil
	}
	_, err := b.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range daemons {
			p.Set(ctx, abandonedPrefix+id, "1", abandonedTTL)
		}
		return nil
	})
	return err
}

// NotAbandoned asks before this daemon gives out by itself, or publishes, what it holds.
// Where the others went on without it, Redis has lost data since.
func (b *Barrier) NotAbandoned(ctx context.Context, c redis.UniversalClient) error {
	n, err := c.Exists(ctx, abandonedPrefix+b.members.Self).Result()
	if err == nil && n > 0 {
		err = ErrLost
	}
	return err
}

// Abandoned tells whether the others went on without this daemon. Returned ends that.
func (b *Barrier) Abandoned(ctx context.Context) (bool, error) {
	err := b.NotAbandoned(ctx, b.servers.Admin)
	if errors.Is(err, ErrLost) {
		return true, nil
	}
	return false, err
}

// Returned takes back that this daemon was abandoned.
func (b *Barrier) Returned(ctx context.Context) error {
	return b.servers.Admin.Del(ctx, abandonedPrefix+b.members.Self).Err()
}
