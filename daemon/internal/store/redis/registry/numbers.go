package registry

import (
	"context"
	"strconv"

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
	highest := 0
	_, err := r.changeHashes(ctx, func(fields []map[string]string) (commands []command, err error) {
		have := map[string]int{}
		for name, text := range fields[0] {
			if have[name], err = strconv.Atoi(text); err != nil && name == shared.HighestID {
				return nil, Foreign(idsKey)
			}
		}
		have[shared.HighestID] = max(have[shared.HighestID], int(r.highestID.Load()))
		changes := set(have)
		for name, id := range changes {
			commands = append(commands, command{"hset", idsKey, name, id})
		}
		highest = changes[shared.HighestID]
		return commands, nil
	}, idsKey)
	if err == nil && highest > 0 {
		r.highestID.Store(int64(highest))
	}
	return err
}

// ForgetID makes sure that a name that was dropped gets another id if it is created again.
func (r *Registry) ForgetID(ctx context.Context, name string) error {
	return r.servers.Admin.HDel(ctx, idsKey, name).Err()
}
