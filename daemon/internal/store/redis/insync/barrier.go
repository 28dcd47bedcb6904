package insync

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

const (
	// IncarnationKey is the key of a string that changes whenever data is found to be lost, and with each
	// new master.
	IncarnationKey = "urifilter:incarnation"
	// Stopped is the prefix of the key of the daemons that send no batches until the servers of
	// an incident are resynced. Resynced is the prefix of the key of those that have put back
	// what they know.
	Stopped  = "urifilter:stopped:"
	Resynced = "urifilter:healed:"
)

// ErrChanged says that Redis is no longer in the state that was being resynced.
var ErrChanged = errors.New("redis changed during the resync; repeating it")

// Barrier is where daemons wait for each other.
type Barrier struct {
	state   *State
	servers *servers.Servers
	members *members.Members
	log     *slog.Logger
	// Longer returns the extra time to wait for a daemon that shows heartbeats.
	Longer func() time.Duration
}

// NewBarrier returns the barrier of one daemon.
func NewBarrier(state *State, servers *servers.Servers, members *members.Members, log *slog.Logger) *Barrier {
	return &Barrier{state, servers, members, log, func() time.Duration { return 0 }}
}

// renew replaces the incarnation with ARGV[2] if it is ARGV[1] or missing, and returns the
// incarnation after that.
var renew = redis.NewScript(servers.AllowFull + `
local now = redis.call('GET', KEYS[1])
if not now or now == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return ARGV[2] end
return now
`)

// Incarnation returns the incarnation of the data in Redis. If that is still stale, it is
// replaced first.
func (b *Barrier) Incarnation(ctx context.Context, stale string) (string, error) {
	return renew.Run(ctx, b.servers.Admin, []string{IncarnationKey}, stale, rand.Text()).Text()
}

// Incident returns a name for the servers and the incarnation for which daemons stop and
// resync.
func Incident(runIDs []string, incarnation string) string {
	sum := sha256.Sum256([]byte(strings.Join(runIDs, " ") + " " + incarnation))
	return hex.EncodeToString(sum[:8])
}

// incidentNow returns the name of the current incident.
func (b *Barrier) incidentNow(ctx context.Context) (string, error) {
	ids, err := b.servers.RunIDs(ctx)
	if err != nil {
		return "", err
	}
	inc, err := b.Incarnation(ctx, "")
	return Incident(ids, inc), err
}

// Together takes a step of resyncing an incident, and waits until all other daemons have taken
// it too, have signed off, or are considered dead. It returns ErrLostAgain if what this daemon has
// announced is gone: daemons that have not read it would wait for this one.
func (b *Barrier) Together(ctx context.Context, step, in string) error {
	key := step + in
	if err := b.members.Announce(ctx, key); err != nil {
		return err
	}
	announced := []string{Stopped + in}
	if step == Resynced {
		announced = append(announced, key)
	}
	start := time.Now()
	waited := map[string]bool{}
	for {
		// If Redis has lost data again, the others are resyncing another incident by now.
		now, err := b.incidentNow(ctx)
		if err != nil {
			return err
		}
		if now != in {
			return ErrChanged
		}
		var done map[string]struct{} // the daemons that have taken the step
		for _, key := range announced {
			if done, err = b.servers.Admin.SMembersMap(ctx, key).Result(); err != nil {
				return err
			}
			if _, ok := done[b.members.Self]; !ok {
				return ErrLostAgain
			}
		}
		if err := b.members.Beat(ctx); err != nil {
			return err
		}
		var missing []string
		for _, id := range b.members.Alive() {
			if _, ok := done[id]; !ok {
				missing = append(missing, id)
				waited[id] = true
			}
		}
		silent, killed := b.members.Lost(waited)
		if time.Since(start) > members.ResyncTimeout+b.Longer() {
			silent, missing = append(silent, missing...), nil
		}
		if len(silent) > 0 {
			b.log.Warn("daemons that shared this redis do not answer; what only they knew may be new again", "daemons", strings.Join(silent, " "))
		}
		if len(killed) > 0 {
			b.log.Warn("daemons that shared this redis were killed; what only they knew may be new again", "daemons", strings.Join(killed, " "))
		}
		given := append(silent, killed...)
		if len(given) > 0 {
			// Others, including daemons that are started later, need not wait for them either.
			for _, key := range []string{Stopped + in, Resynced + in} {
				if err := servers.Always(ctx, b.servers.Admin, "sadd", key, boxed(given)...).Err(); err != nil {
					return err
				}
			}
		}
		if len(missing) == 0 {
			return b.abandon(ctx, append(b.members.Away(), given...))
		}
		b.state.Note(fmt.Errorf("waiting for other daemons that share this redis: %s", strings.Join(missing, " ")))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func boxed(ids []string) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}
