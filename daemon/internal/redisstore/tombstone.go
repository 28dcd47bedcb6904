package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// tombstonesKey is a hash of what is to be removed from Redis: entries that were dropped,
// whose keys stay until all daemons have noticed, and entries of filters that are being
// made, whose keys are to go if their maker dies. Any daemon removes the keys, so that none
// are left when one dies. It is in the registry's slot of a cluster, so that one
// transaction changes both.
const tombstonesKey = "urifilter:tombstones:{" + registryKey + "}"

// tombWait is how long the other daemons may take to see that a filter was dropped. By
// then they ask for none of its keys.
const tombWait = 3 * pollEvery

// A tombstone's field is the name of the filter and its entry; its value is who makes it,
// or dropped.
const dropped = "dropped"

func tombOf(e entry) (string, error) {
	text, err := e.encode()
	return e.spec.Name + " " + text, err
}

func (e *entry) fromTomb(field string) (err error) {
	name, text, ok := strings.Cut(field, " ")
	if !ok || !json.Valid([]byte(text)) {
		return fmt.Errorf("key %s: holds what is no tombstone", tombstonesKey)
	}
	*e, err = decodeEntry(name, text)
	return err
}

// beginMaking writes the tombstone of a filter that is to be made.
func (s *Store) beginMaking(ctx context.Context, e entry) (tomb string, err error) {
	if tomb, err = tombOf(e); err != nil {
		return "", err
	}
	return tomb, s.admin.HSet(ctx, tombstonesKey, tomb, s.peers.self).Err()
}

// unmake leaves a filter that was not registered to the cleaner.
func (s *Store) unmake(ctx context.Context, e entry) error {
	tomb, err := tombOf(e)
	if err != nil {
		return err
	}
	return s.admin.HSet(ctx, tombstonesKey, tomb, dropped).Err()
}

// unregister takes an entry out of the registry and leaves its keys to the cleaner. It
// does nothing where the registry does not have it any more.
func (s *Store) unregister(ctx context.Context, e entry) error {
	tomb, err := tombOf(e)
	if err != nil {
		return err
	}
	return s.changeRegistry(ctx, func(have, _ map[string]string, commit func(func(redis.Pipeliner)) error) error {
		its, err := decodeEntry(e.spec.Name, have[e.spec.Name])
		if have[e.spec.Name] == "" || err == nil && its != e {
			return nil
		}
		if err != nil {
			return err
		}
		return commit(func(p redis.Pipeliner) {
			p.HDel(ctx, registryKey, e.spec.Name)
			p.HSet(ctx, tombstonesKey, tomb, dropped)
		})
	})
}

// dropped tells whether the registry, which is there, does not have the entry.
func (s *Store) dropped(ctx context.Context, e entry) (bool, error) {
	have, id, err := s.readRegistry(ctx)
	if err != nil || have[formatField] == "" || !s.sameRegistry(id) {
		return false, err
	}
	text, ok := have[e.spec.Name]
	if !ok {
		return true, nil
	}
	its, err := decodeEntry(e.spec.Name, text)
	return err == nil && its != e, err
}

// cleaner removes the keys that tombstones name, and then the tombstones.
func (s *Store) cleaner(ctx context.Context) {
	since := map[string]time.Time{} // by the clock of this machine: when each was first seen
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.sync.check(); err != nil {
			clear(since)
			continue
		}
		if err := s.cleanOnce(ctx, since, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("keys of a dropped filter are still in redis; the next try follows", "err", err)
		}
	}
}

func (s *Store) cleanOnce(ctx context.Context, since map[string]time.Time, now time.Time) error {
	tombs, err := s.admin.HGetAll(ctx, tombstonesKey).Result()
	if err != nil {
		return err
	}
	for tomb := range since {
		if _, ok := tombs[tomb]; !ok {
			delete(since, tomb)
		}
	}
	for tomb, maker := range tombs {
		first, ok := since[tomb]
		switch {
		case !ok || s.peers.mayLive(maker):
			since[tomb] = now
			continue
		case now.Sub(first) < tombWait:
			continue
		case maker != dropped: // should it live after all, it finds that it may not register
			delete(since, tomb)
			err = s.admin.HSet(ctx, tombstonesKey, tomb, dropped).Err()
		default:
			err = s.clean(ctx, tomb)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clean removes the keys of one tombstone, unless a filter of the registry has them: that
// of an earlier version, whose keys have no tag, and which was made again.
func (s *Store) clean(ctx context.Context, tomb string) error {
	var e entry
	if err := e.fromTomb(tomb); err != nil {
		return nil // of a newer version, which will remove it
	}
	all, err := s.registry(ctx)
	if err != nil {
		return err
	}
	its, err := decodeEntry(e.spec.Name, all[e.spec.Name])
	if err != nil && all[e.spec.Name] != "" && e.hasBitMap() && e.tag == "" {
		return nil // a damaged entry, which may be that of the same keys
	}
	if all[e.spec.Name] == "" || keysOf(its) != keysOf(e) {
		if err := s.removeKeys(ctx, e); err != nil {
			return err
		}
		s.log.Info("keys of a dropped filter are removed from redis", "filter", e.spec.Name, "id", e.spec.ID)
	}
	return s.admin.HDel(ctx, tombstonesKey, tomb).Err()
}

// keysOf is what the keys of a filter begin with.
func keysOf(e entry) string {
	if e.hasBitMap() {
		return mapPrefix(e)
	}
	return timedPrefix(e)
}

func (s *Store) removeKeys(ctx context.Context, e entry) error {
	if !e.hasBitMap() {
		prefix := timedPrefix(e)
		return masters(ctx, s.admin, func(ctx context.Context, c *redis.Client) error { return removePrefix(ctx, c, prefix) })
	}
	for i := range e.header.Stripes() {
		if err := s.admin.Unlink(ctx, stripeKey(e, i)).Err(); err != nil {
			return err
		}
	}
	return s.admin.Unlink(ctx, unackedSetKey(e)).Err()
}

// removePrefix removes the keys that begin with prefix from one server.
func removePrefix(ctx context.Context, c *redis.Client, prefix string) error {
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, prefix+"*", 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys {
					p.Unlink(ctx, key)
				}
				return nil
			})
			if moved := err != nil && strings.HasPrefix(err.Error(), "MOVED"); err != nil && !moved {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
