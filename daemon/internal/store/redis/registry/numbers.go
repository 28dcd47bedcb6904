package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// idsKey is the key of a hash with the ids, see shared.HighestID.
const idsKey = "urifilter:ids"

var _ engine.Numbers = (*Registry)(nil)

// TakeID implements engine.Numbers. If Redis lost its data, counting goes on from the highest
// id that this daemon knows.
func (r *Registry) TakeID(ctx context.Context, name string, least int) (id int, err error) {
	err = r.number(ctx, func(have map[string]int) (changes map[string]int) {
		id, changes = shared.TakeID(have, name, least)
		return changes
	})
	return id, err
}

// NoteID implements engine.Numbers.
func (r *Registry) NoteID(ctx context.Context, id int) error {
	return r.number(ctx, func(have map[string]int) map[string]int { return shared.NoteID(have, id) })
}

// number changes idsKey in one step: given the present fields, set returns those to set; nil: none.
func (r *Registry) number(ctx context.Context, set func(have map[string]int) map[string]int) error {
	for range 100 { // others may take ids meanwhile
		err := r.servers.Admin.Watch(ctx, func(tx *redis.Tx) error {
			fields, err := tx.HGetAll(ctx, idsKey).Result()
			if err != nil {
				return err
			}
			have := map[string]int{}
			for name, text := range fields {
				if have[name], err = strconv.Atoi(text); err != nil && name == shared.HighestID {
					return Foreign(idsKey)
				}
			}
			have[shared.HighestID] = max(have[shared.HighestID], int(r.highestID.Load()))
			changes := set(have)
			if changes == nil {
				return nil
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				for name, id := range changes {
					p.HSet(ctx, idsKey, name, id)
				}
				return nil
			})
			if err == nil {
				r.highestID.Store(int64(changes[shared.HighestID]))
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
