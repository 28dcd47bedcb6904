package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

const idsKey = "urifilter:ids"

// highestField is the field of idsKey with the highest id that was given; the other fields are
// the names of filters that exist or are being created.
const highestField = ":highest"

var _ engine.Numbers = (*Registry)(nil)

// TakeID implements engine.Numbers. If Redis lost its data, counting goes on from the highest
// id that this daemon knows.
func (r *Registry) TakeID(ctx context.Context, name string, least int) (id int, err error) {
	err = r.number(ctx, func(have map[string]string, highest int) []any {
		if id, _ = strconv.Atoi(have[name]); id >= least {
			return nil
		}
		id = max(least, highest+1)
		return []any{highestField, id, name, id}
	})
	return id, err
}

// NoteID implements engine.Numbers.
func (r *Registry) NoteID(ctx context.Context, id int) error {
	return r.number(ctx, func(_ map[string]string, highest int) []any {
		if highest >= id {
			return nil
		}
		return []any{highestField, id}
	})
}

// number changes idsKey in one step: given the present fields, set returns the fields to set
// and their values; nil: none.
func (r *Registry) number(ctx context.Context, set func(have map[string]string, highest int) []any) error {
	for range 100 { // others may take ids meanwhile
		err := r.servers.Admin.Watch(ctx, func(tx *redis.Tx) error {
			have, err := tx.HGetAll(ctx, idsKey).Result()
			if err != nil {
				return err
			}
			highest := 0
			if text, ok := have[highestField]; ok {
				if highest, err = strconv.Atoi(text); err != nil {
					return Foreign(idsKey)
				}
			}
			highest = max(highest, int(r.highestID.Load()))
			values := set(have, highest)
			if values == nil {
				return nil
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.HSet(ctx, idsKey, values...)
				return nil
			})
			if err == nil {
				r.highestID.Store(int64(max(highest, values[1].(int))))
			}
			return err
		}, idsKey)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
	return fmt.Errorf("key %s: others change it all the time: %w", idsKey, engine.ErrUnavailable)
}

// ForgetID makes sure that a name that was dropped gets another id if it is created again.
func (r *Registry) ForgetID(ctx context.Context, name string) error {
	return r.servers.Admin.HDel(ctx, idsKey, name).Err()
}
