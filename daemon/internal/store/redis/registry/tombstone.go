package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/redis/go-redis/v9"
)

// TombstonesKey is the key of a hash of what must be removed from Redis: entries that were
// dropped, whose keys stay until all daemons have noticed, and entries of filters that are
// being created, whose keys must go if their creator dies. Any daemon may remove the keys, so
// that none are left when one dies. The hash is in the registry's slot of a cluster, so that
// one transaction changes both.
const TombstonesKey = "urifilter:tombstones:{" + Key + "}"

// A tombstone's field is the name of the filter and its entry. Its value is the daemon that makes the
// filter; or Dropped; or Dropped, a space, and the daemon that removes the keys.
const Dropped = "dropped"

// IsDropped reports whether a tombstone with this value is of a filter that was dropped.
func IsDropped(value string) bool { return value == Dropped || strings.HasPrefix(value, Dropped+" ") }

// TombOf returns the field of an entry in TombstonesKey.
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
	return tomb, servers.Always(ctx, r.servers.Admin, "hset", TombstonesKey, tomb, r.self).Err()
}

// Unmake leaves a filter that was not registered to the cleaner.
func (r *Registry) Unmake(ctx context.Context, e Entry) error {
	tomb, err := TombOf(e)
	if err != nil {
		return err
	}
	return servers.Always(ctx, r.servers.Admin, "hset", TombstonesKey, tomb, Dropped).Err()
}

// Dropped tells whether the registry exists but does not have the entry.
func (r *Registry) Dropped(ctx context.Context, e Entry) (bool, error) {
	have, id, err := r.Read(ctx)
	if err != nil || have[FormatField] == "" || !r.IsCurrent(id) {
		return false, err
	}
	text, ok := have[e.Spec.Name]
	if !ok {
		return true, nil
	}
	its, err := Decode(e.Spec.Name, text)
	return err == nil && its != e, err
}

// Clean removes the keys of one tombstone, which has this value, unless a filter in the
// registry has the same keys: one of an earlier version, whose keys have no tag, that was
// created again.
//
// A daemon that has not noticed the drop may create keys again after Clean; then it calls
// Unmake. So Clean first puts its mark on the tombstone, and finally removes the tombstone only
// if the mark is still on it. Otherwise Clean must be called again.
func (r *Registry) Clean(ctx context.Context, tomb, value string) error {
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
		return nil // a damaged entry, which may have the same keys
	}
	mark := Dropped + " " + r.self
	if marked, err := r.replaceTomb(ctx, tomb, value, mark); err != nil || !marked {
		return err
	}
	if all[e.Spec.Name] == "" || KeysOf(its) != KeysOf(e) {
		if err := r.removeKeys(ctx, e); err != nil {
			return err
		}
		r.log.Info("keys of a dropped filter are removed from redis", "filter", e.Spec.Name, "id", e.Spec.ID)
	}
	_, err = r.replaceTomb(ctx, tomb, mark, "")
	return err
}

// replace gives the field ARGV[1] of the hash KEYS[1] the value ARGV[3], or removes it if that is empty, if it has
// the value ARGV[2].
var replace = redis.NewScript(servers.AllowFull + `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
`)

// replaceTomb gives a tombstone another value, or removes it if value is "". It reports whether
// it did: it does not if the tombstone does not have the old value.
func (r *Registry) replaceTomb(ctx context.Context, tomb, old, value string) (done bool, err error) {
	return replace.Run(ctx, r.servers.Admin, []string{TombstonesKey}, tomb, old, value).Bool()
}

// KeysOf returns the prefix of the keys of a filter.
func KeysOf(e Entry) string {
	if e.HasBitMap() {
		return MapPrefix(e)
	}
	return ItemPrefix(e)
}

func (r *Registry) removeKeys(ctx context.Context, e Entry) error {
	switch {
	case !e.HasBitMap():
		return r.removePrefix(ctx, ItemPrefix(e))
	case e.Header.Layers > 0: // the number of stripes depends on how far it grew
		if err := r.removePrefix(ctx, MapPrefix(e)+":"); err != nil {
			return err
		}
	default:
		for i := range e.Header.Stripes() {
			if err := r.servers.Admin.Unlink(ctx, StripeKey(e, i)).Err(); err != nil {
				return err
			}
		}
	}
	return r.servers.Admin.Unlink(ctx, UnackedKey(e)).Err()
}

// removePrefix removes the keys that begin with prefix.
func (r *Registry) removePrefix(ctx context.Context, prefix string) error {
	return r.servers.Masters(ctx, func(ctx context.Context, c *redis.Client) error { return removePrefix(ctx, c, prefix) })
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
