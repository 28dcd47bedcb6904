package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// renew replaces the incarnation ARGV[1], or a missing one, by ARGV[2], and returns what
// is there then.
var renew = redis.NewScript(`
local now = redis.call('GET', KEYS[1])
if not now or now == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return ARGV[2] end
return now
`)

func (s *Store) incarnation(ctx context.Context, stale string) (string, error) {
	return renew.Run(ctx, s.admin, []string{incarnationKey}, stale, rand.Text()).Text()
}

// incident names the servers and the incarnation that daemons stop and heal for.
func incident(runIDs []string, incarnation string) string {
	sum := sha256.Sum256([]byte(strings.Join(runIDs, " ") + " " + incarnation))
	return hex.EncodeToString(sum[:8])
}

// healer restores trust whenever it was lost.
func (s *Store) healer(ctx context.Context) {
	retry := time.NewTicker(retryHeal)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.trust.wake:
		case <-retry.C:
		}
		if _, err := s.trust.check(); err == nil {
			continue
		}
		if err := s.heal(ctx); err != nil && ctx.Err() == nil {
			s.trust.still(err)
			s.log.Warn("redis is not healed yet", "err", err)
		}
	}
}

// heal puts back into Redis what this daemon knows, waits for the other daemons to do
// the same, and restores trust. It may be repeated at any time: bits are only or-ed.
// Load calls it with the servers that it has just read everything from.
func (s *Store) heal(ctx context.Context, justRead ...string) error {
	start := time.Now()
	if s.awaited == nil {
		// Who of the others was alive when Redis was last seen? While it is away nobody
		// can give a sign, so this is asked once for every loss of trust.
		s.awaited = append([]string{}, s.peers.alive(s.peers.lastRead())...)
	}
	epoch := s.trust.epoch.Load()
	ids, err := s.runIDs(ctx)
	if err != nil {
		return err
	}
	inc, err := s.incarnation(ctx, s.trust.stale())
	if err != nil {
		return err
	}
	// Batches under way end before this daemon says that it has stopped.
	s.flight.Lock()
	//lint:ignore SA2001 nothing is done under it: later batches see that trust is lost
	s.flight.Unlock()
	for _, f := range s.all() {
		if p, ok := f.(perishable); ok {
			if err := p.stop(ctx); err != nil {
				return fmt.Errorf("filter %s: %w", f.base().spec.Name, err)
			}
		}
	}
	in := incident(ids, inc)
	if err := s.together(ctx, stoppedPrefix+in); err != nil {
		return err
	}
	if err := s.reconcile(ctx, s.trust.anyNew(ids)); err != nil {
		return err
	}
	lost := false
	if !slices.Equal(ids, justRead) {
		if lost, err = s.putBack(ctx); err != nil {
			return err
		}
	}
	if lost && s.trust.trusts(inc) {
		s.trust.lose(errLost) // nobody has told the others yet
		return errLost
	}
	if err := s.together(ctx, healedPrefix+in); err != nil {
		return err
	}
	if !s.trust.restore(epoch, ids, inc) {
		return errors.New("redis changed while it was healed; once more")
	}
	s.awaited = nil
	s.log.Info("redis is trusted", "servers", len(ids), "lost_data", lost, "filters", len(s.all()), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// putBack ors every mirror into Redis, and the archive's bits where a stripe was gone.
func (s *Store) putBack(ctx context.Context) (lost bool, err error) {
	for _, f := range s.all() {
		spec := f.base().spec
		gone, err := f.heal(ctx)
		if err != nil {
			return lost, fmt.Errorf("filter %s: %w", spec.Name, err)
		}
		if bits, ok := f.(engine.BitMap); ok && gone && s.restore != nil {
			if err := s.restore(ctx, spec, bits); err != nil {
				s.log.Warn("filter was healed from this daemon's memory only, not from the archive", "filter", spec.Name, "err", err)
			}
		}
		lost = lost || gone
	}
	return lost, nil
}

// reconcile makes the registry and the filters here agree. What the registry lacks was
// dropped by another daemon, or, where a server was started anew, lost.
func (s *Store) reconcile(ctx context.Context, started bool) error {
	have, err := s.registry(ctx)
	if err != nil {
		return err
	}
	formatThere, err := s.admin.HExists(ctx, registryKey, formatField).Result()
	if err != nil {
		return err
	}
	if err := s.admin.HSetNX(ctx, registryKey, formatField, format).Err(); err != nil {
		return err
	}
	for _, f := range s.all() {
		mine := f.base().entry
		text, there := have[mine.spec.Name]
		if !there && formatThere && !started {
			s.forget(f)
			continue
		}
		if !there {
			if text, err = mine.encode(); err != nil {
				return err
			}
			if err := s.admin.HSetNX(ctx, registryKey, mine.spec.Name, text).Err(); err != nil {
				return err
			}
			continue
		}
		if e, err := decodeEntry(mine.spec.Name, text); err == nil && e != mine {
			s.forget(f) // made anew; poll finds the new one
		}
	}
	return nil
}
