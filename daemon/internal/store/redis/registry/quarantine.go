package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A filter is in quarantine if its entry in the registry, or its stripes, cannot be understood:
// this daemon serves the others, and gives its name and id to no other filter. A daemon that is
// already serving the filter when its entry is damaged goes on until it is restarted.

var _ engine.Quarantiner = (*Registry)(nil)

// QuarantineKey is the key of a hash of entries that were dropped from quarantine: name and
// time -> entry. It is in the registry's slot of a cluster.
const QuarantineKey = "urifilter:quarantine:{" + Key + "}"

// damagedError is an error of one filter's data. It says nothing about other filters.
type damagedError struct{ error }

// Damaged makes err an error that AsDamaged recognizes.
func Damaged(err error) error { return damagedError{err} }

func (e damagedError) Unwrap() error { return e.error }

// AsDamaged reports whether an error concerns only one filter, so that others can be served.
func AsDamaged(err error) bool {
	var damaged damagedError
	return errors.As(err, &damaged)
}

// Quarantine notes a filter that is not served, unless it is known already. Where distinguishes
// entries of the same name.
func (r *Registry) Quarantine(name, text string, cause error) (q engine.Quarantined, known bool) {
	q = engine.Quarantined{ID: idOf(text), Name: name, Where: WhereIs(name, text), Cause: cause}
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, there := r.bad[name]; there && was.Where == q.Where {
		return was, true
	}
	r.bad[name] = q
	return q, false
}

// WhereIs returns a text that distinguishes entries of the same name.
func WhereIs(name, text string) string {
	return fmt.Sprintf("key %s, field %s, CRC-32C %08x", Key, name, bloom.Checksum([]byte(text)))
}

// idOf returns the id in an entry that is damaged elsewhere; 0 if it cannot be read.
func idOf(text string) int {
	var j struct {
		ID int `json:"id"`
	}
	_ = json.Unmarshal([]byte(text), &j) // what was decoded before the damage counts
	return max(j.ID, 0)
}

// Quarantined implements engine.Quarantiner.
func (r *Registry) Quarantined() []engine.Quarantined {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []engine.Quarantined
	for _, q := range r.bad {
		all = append(all, q)
	}
	return all
}

// Release makes the name of an entry available again.
func (r *Registry) Release(q engine.Quarantined) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad[q.Name].Where == q.Where {
		delete(r.bad, q.Name)
	}
}

// PutAway implements engine.Quarantiner: the entry is moved out of the registry. Its keys, if
// there are any, stay.
func (r *Registry) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	field := q.Name + " " + time.Now().UTC().Format("20060102T150405.000000000Z")
	err = r.change(ctx, func(have, _ map[string]string, commit func(func(redis.Pipeliner)) error) error {
		text, there := have[q.Name]
		if !there || WhereIs(q.Name, text) != q.Where {
			return nil // another daemon was quicker
		}
		return commit(func(p redis.Pipeliner) {
			p.HSet(ctx, QuarantineKey, field, text)
			p.HDel(ctx, Key, q.Name)
		})
	})
	if err != nil {
		return "", fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	r.Release(q)
	return "key " + QuarantineKey + ", field " + field, nil
}
