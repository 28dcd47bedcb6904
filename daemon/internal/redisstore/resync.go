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

// incident names the servers and the incarnation that daemons stop and resync for.
func incident(runIDs []string, incarnation string) string {
	sum := sha256.Sum256([]byte(strings.Join(runIDs, " ") + " " + incarnation))
	return hex.EncodeToString(sum[:8])
}

// incidentNow is the incident as it presents itself now.
func (s *Store) incidentNow(ctx context.Context) (string, error) {
	ids, err := s.runIDs(ctx)
	if err != nil {
		return "", err
	}
	inc, err := s.incarnation(ctx, "")
	return incident(ids, inc), err
}

var errChanged = errors.New("redis changed while it was resynced; once more")

// resyncer puts back what Redis has lost, whenever it has.
func (s *Store) resyncer(ctx context.Context) {
	told := ""
	retry := time.NewTicker(retryResync)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sync.wake:
		case <-retry.C:
		}
		if _, err := s.sync.check(); err == nil {
			continue
		}
		err := s.resync(ctx)
		if ctx.Err() != nil {
			return
		}
		s.reach.note(s.log, err)
		if err == nil {
			told = ""
			continue
		}
		s.sync.note(err)
		if text := err.Error(); !unreachable(err) && text != told { // it is tried several times a second
			told = text
			s.log.Warn("redis is not resynced yet", "err", err)
		}
	}
}

// resync puts back into Redis what this daemon knows, waits for the other daemons to do
// the same, and says so. It may be repeated at any time: bits are only or-ed.
// Load calls it with the servers that it has just read everything from.
func (s *Store) resync(ctx context.Context, justRead ...string) error {
	start := time.Now()
	epoch := s.sync.epoch.Load()
	ids, err := s.runIDs(ctx)
	if err != nil {
		return err
	}
	inc, err := s.incarnation(ctx, s.sync.stale())
	if err != nil {
		return err
	}
	// Batches under way end before this daemon says that it has stopped.
	s.flight.Lock()
	//lint:ignore SA2001 nothing is done under it: later batches see that it is not in sync
	s.flight.Unlock()
	started := s.sync.anyNew(ids)
	// Once for each start of a server: when this is tried again, the others may have put there
	// what they know.
	servers := strings.Join(ids, " ")
	first := started && s.sync.wasSynced() && s.stoppedFor != servers
	for _, f := range s.all() {
		if err := f.stop(ctx, first); err != nil {
			return fmt.Errorf("filter %s: %w", f.base().spec.Name, err)
		}
	}
	s.stoppedFor = servers
	in := incident(ids, inc)
	if err := s.together(ctx, stoppedPrefix, in); err != nil {
		return err
	}
	if err := s.forgetIfAbandoned(ctx); err != nil {
		return err
	}
	if err := s.reconcile(ctx, started); err != nil {
		return err
	}
	lost := false
	if !slices.Equal(ids, justRead) {
		if lost, err = s.putBack(ctx); err != nil {
			return err
		}
	}
	if lost && s.sync.isCurrent(inc) {
		s.sync.invalidate(errLost) // nobody has told the others yet
		return errLost
	}
	if err := s.together(ctx, resyncedPrefix, in); err != nil {
		return err
	}
	// What the others have put there is known before anything is answered.
	if err := s.followUnacked(ctx, true); err != nil {
		return err
	}
	if !s.sync.validate(epoch, ids, inc) {
		return errChanged
	}
	s.log.Info("redis is in sync", "servers", len(ids), "lost_data", lost, "filters", len(s.all()), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// putBack ors every mirror into Redis, and the archive's bits where a stripe was gone.
func (s *Store) putBack(ctx context.Context) (lost bool, err error) {
	for _, f := range s.all() {
		spec := f.base().spec
		gone, err := f.resync(ctx)
		if err != nil {
			return lost, fmt.Errorf("filter %s: %w", spec.Name, err)
		}
		if bits, ok := f.(engine.BitMap); ok && gone && s.restore != nil {
			if err := s.restore(ctx, spec, bits); err != nil {
				s.log.Warn("filter was resynced from this daemon's memory only, not from the archive", "filter", spec.Name, "err", err)
			}
		}
		lost = lost || gone
	}
	return lost, nil
}

// reconcile makes the registry and the filters here agree. What the registry lacks was
// dropped by another daemon; or it was lost, where a server was started anew or the
// registry is not the one that was there.
func (s *Store) reconcile(ctx context.Context, started bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	have, id, err := s.readRegistry(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	lost := started || have[formatField] == "" || id == "" || s.registryID != "" && s.registryID != id
	s.mu.Unlock()
	missing := []any{}
	for _, f := range s.all() {
		mine := f.base().entry
		text, there := have[mine.spec.Name]
		switch {
		case there:
			e, err := decodeEntry(mine.spec.Name, text)
			switch {
			case err != nil || e == mine:
			case lost && e.spec == mine.spec && e.gen < mine.gen && e.born < mine.born:
				// Redis went back to before the filter was cleared.
				if err := s.clearAgain(ctx, e, mine); err != nil {
					return err
				}
			default: // cleared or made anew; what this one has is of no use
				if err := s.take(ctx, mine.spec.Name, text); err != nil && !errors.Is(err, errLost) {
					return err
				}
			}
		case lost:
			if text, err = mine.encode(); err != nil {
				return err
			}
			missing = append(missing, mine.spec.Name, text)
		default:
			s.forget(f)
		}
	}
	if id, err = s.mendRegistry(ctx, missing); err != nil {
		return err
	}
	s.mu.Lock()
	s.registryID = id
	s.mu.Unlock()
	return nil
}

// mend adds to the registry KEYS[1] the entries ARGV[3...] that it lacks, and its format,
// ARGV[1]. One that had none is a new registry, and gets the id ARGV[2] at KEYS[2].
// Returns the id.
var mend = redis.NewScript(`
for i = 3, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i+1]) end
if redis.call('HSETNX', KEYS[1], ':format', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[2], ARGV[2], 'NX')
return redis.call('GET', KEYS[2])
`)

// mendRegistry adds entries that are missing, and what tells one registry from another,
// in one step. It returns the id.
func (s *Store) mendRegistry(ctx context.Context, entries []any) (string, error) {
	args := append([]any{format, rand.Text()}, entries...)
	return mend.Run(ctx, s.admin, []string{registryKey, registryIDKey}, args...).Text()
}
