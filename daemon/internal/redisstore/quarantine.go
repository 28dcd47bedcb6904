package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// A filter whose entry in the registry, or whose stripes, are not to be understood is in
// quarantine: this daemon serves the others, and gives its name and id to nobody. A daemon
// that serves the filter when its entry is damaged goes on, until it is started again.

var _ engine.Quarantiner = (*Store)(nil)

// quarantineKey is a hash of entries that were dropped from quarantine: name and moment ->
// entry. It is in the registry's slot of a cluster.
const quarantineKey = "urifilter:quarantine:{" + registryKey + "}"

// damagedError is an error of one filter's data, that says nothing about the others.
type damagedError struct{ error }

func (e damagedError) Unwrap() error { return e.error }

func asDamaged(err error) bool {
	var damaged damagedError
	return errors.As(err, &damaged)
}

// quarantine notes a filter that is not served, unless it is known already. Where tells one
// entry of a name from the next.
func (s *Store) quarantine(name, text string, cause error) (q engine.Quarantined, known bool) {
	q = engine.Quarantined{ID: idOf(text), Name: name, Where: whereIs(name, text), Cause: cause}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, there := s.bad[name]; there && was.Where == q.Where {
		return was, true
	}
	s.bad[name] = q
	return q, false
}

func whereIs(name, text string) string {
	return fmt.Sprintf("key %s, field %s, CRC-32C %08x", registryKey, name, bloom.Checksum([]byte(text)))
}

// idOf is the id in an entry that is damaged elsewhere; 0 where it cannot be told.
func idOf(text string) int {
	var j struct {
		ID int `json:"id"`
	}
	_ = json.Unmarshal([]byte(text), &j) // what was understood before the damage counts
	return max(j.ID, 0)
}

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []engine.Quarantined
	for _, q := range s.bad {
		all = append(all, q)
	}
	return all
}

// followQuarantine tells of filters that are in quarantine no more: their entries were
// dropped, or mended. all is the registry.
func (s *Store) followQuarantine(ctx context.Context, all map[string]string) error {
	for _, q := range s.Quarantined() {
		if text, there := all[q.Name]; there && whereIs(q.Name, text) == q.Where {
			continue
		}
		s.release(q)
		if err := s.send(ctx, engine.Change{Spec: engine.Spec{ID: q.ID, Name: q.Name}, Mended: &q}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) release(q engine.Quarantined) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad[q.Name].Where == q.Where {
		delete(s.bad, q.Name)
	}
}

// PutAway implements engine.Quarantiner: the entry is moved out of the registry. Its keys, if
// there are any, stay.
func (s *Store) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	if _, err := s.sync.check(); err != nil {
		return "", err
	}
	field := q.Name + " " + time.Now().UTC().Format("20060102T150405.000000000Z")
	err = s.changeRegistry(ctx, func(have, _ map[string]string, commit func(func(redis.Pipeliner)) error) error {
		text, there := have[q.Name]
		if !there || whereIs(q.Name, text) != q.Where {
			return nil // another daemon was quicker
		}
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, quarantineKey, field, text)
			p.HDel(ctx, registryKey, q.Name)
		})
	})
	if err != nil {
		return "", fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	s.release(q)
	return "key " + quarantineKey + ", field " + field, nil
}
