package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// TombstonesKey is a hash of what is to be removed from Redis: entries that were dropped,
// whose keys stay until all daemons have noticed, and entries of filters that are being
// made, whose keys are to go if their maker dies. Any daemon removes the keys, so that none
// are left when one dies. It is in the registry's slot of a cluster, so that one
// transaction changes both.
const TombstonesKey = "urifilter:tombstones:{" + Key + "}"

// A tombstone's field is the name of the filter and its entry; its value is who makes it,
// or dropped.
const Dropped = "dropped"

// TombOf is the field of an entry.
func TombOf(e Entry) (string, error) {
	text, err := e.Encode()
	return e.Spec.Name + " " + text, err
}

func (e *Entry) fromTomb(field string) (err error) {
	name, text, ok := strings.Cut(field, " ")
	if !ok || !json.Valid([]byte(text)) {
		return fmt.Errorf("key %s: holds what is no tombstone", TombstonesKey)
	}
	*e, err = Decode(name, text)
	return err
}

// BeginMaking writes the tombstone of a filter that is to be made.
func (r *Registry) BeginMaking(ctx context.Context, e Entry) (tomb string, err error) {
	if tomb, err = TombOf(e); err != nil {
		return "", err
	}
	return tomb, r.servers.Admin.HSet(ctx, TombstonesKey, tomb, r.self).Err()
}

// Unmake leaves a filter that was not registered to the cleaner.
func (r *Registry) Unmake(ctx context.Context, e Entry) error {
	tomb, err := TombOf(e)
	if err != nil {
		return err
	}
	return r.servers.Admin.HSet(ctx, TombstonesKey, tomb, Dropped).Err()
}

// Dropped tells whether the registry, which is there, does not have the entry.
func (r *Registry) Dropped(ctx context.Context, e Entry) (bool, error) {
	have, id, err := r.Read(ctx)
	if err != nil || have[FormatField] == "" || !r.Same(id) {
		return false, err
	}
	text, ok := have[e.Spec.Name]
	if !ok {
		return true, nil
	}
	its, err := Decode(e.Spec.Name, text)
	return err == nil && its != e, err
}

// Clean removes the keys of one tombstone, unless a filter of the registry has them: that
// of an earlier version, whose keys have no tag, and which was made again.
func (r *Registry) Clean(ctx context.Context, tomb string) error {
	var e Entry
	if err := e.fromTomb(tomb); err != nil {
		return nil // of a newer version, which will remove it
	}
	all, err := r.Entries(ctx)
	if err != nil {
		return err
	}
	its, err := Decode(e.Spec.Name, all[e.Spec.Name])
	if err != nil && all[e.Spec.Name] != "" && e.HasBitMap() && e.Tag == "" {
		return nil // a damaged entry, which may be that of the same keys
	}
	if all[e.Spec.Name] == "" || keysOf(its) != keysOf(e) {
		if err := r.removeKeys(ctx, e); err != nil {
			return err
		}
		r.log.Info("keys of a dropped filter are removed from redis", "filter", e.Spec.Name, "id", e.Spec.ID)
	}
	return r.servers.Admin.HDel(ctx, TombstonesKey, tomb).Err()
}

// keysOf is what the keys of a filter begin with.
func keysOf(e Entry) string {
	if e.HasBitMap() {
		return MapPrefix(e)
	}
	return ItemPrefix(e)
}

func (r *Registry) removeKeys(ctx context.Context, e Entry) error {
	if !e.HasBitMap() {
		prefix := ItemPrefix(e)
		return r.servers.Masters(ctx, func(ctx context.Context, c *redis.Client) error { return removePrefix(ctx, c, prefix) })
	}
	stripes, err := r.stripes(ctx, e)
	if err != nil {
		return err
	}
	for i := stripes - 1; i >= 0; i-- { // the last first, so that what is left is found by its first
		if err := r.servers.Admin.Unlink(ctx, StripeKey(e, i)).Err(); err != nil {
			return err
		}
	}
	return r.servers.Admin.Unlink(ctx, UnackedKey(e)).Err()
}

// stripes is how many a bit-map has in Redis, in all layers: those that have a first stripe.
func (r *Registry) stripes(ctx context.Context, e Entry) (int, error) {
	h := e.Header
	for ; h.Layers > 0 && h.Layers < bloom.MaxLayers; h.Layers++ {
		there, err := r.servers.Admin.Exists(ctx, StripeKey(e, h.Stripes())).Result()
		if err != nil {
			return 0, err
		}
		if there == 0 {
			break
		}
	}
	return h.Stripes(), nil
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
