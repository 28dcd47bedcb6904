package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A filter is in quarantine if its entry in the registry, or its stripes, cannot be understood.

// QuarantineKey is the key of a hash of entries that were dropped from quarantine: name and
// time -> entry. It is in the registry's slot of a cluster.
const QuarantineKey = "urifilter:quarantine:{" + Key + "}"

// Confine puts the filter of an entry into quarantine.
func (r *Registry) Confine(name, text string, cause error) (q engine.Quarantined, known bool) {
	return r.Bad.Add(engine.Quarantined{ID: idOf(text), Name: name, Where: WhereIs(name, text), Cause: cause})
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

// PutAway carries out the PutAway of engine.Quarantiner: the entry is moved out of the registry. Its keys, if
// there are any, stay.
func (r *Registry) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	field := q.Name + " " + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err = r.ForgetID(ctx, q.Name); err == nil {
		_, err = r.change(ctx, func(have, _ map[string]string) ([]command, error) {
			text, there := have[q.Name]
			if !there || WhereIs(q.Name, text) != q.Where {
				return nil, nil // another daemon was quicker
			}
			return []command{{"hset", QuarantineKey, field, text}, {"hdel", Key, q.Name}}, nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	r.Bad.Remove(q)
	return "key " + QuarantineKey + ", field " + field, nil
}
