package leases

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// due lists up to ARGV[1] reservations of KEYS[1] that are due to be swept.
var due = redis.NewScript(`
local clock = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', clock[1] * 1000), 'LIMIT', 0, ARGV[1])
`)

// letGo removes items from a part, together with the leases that the reservation still has on
// them, which have ended. When nothing is left, it removes the reservation from the group.
// Further KEYS: the reservations of the group, and the part. Further ARGV: the reservation.
var letGo = forgotten.NewScript(prelude + `
local id = ARGV[2]
local at = redis.call('ZSCORE', KEYS[3], id)
if not at or tonumber(at) > now then return {0} end
local answer = {1}
for i = 5, #KEYS do
  local item, member = ARGV[2 * i - 7], ARGV[2 * i - 6]
  local is = look(KEYS[i], member)
  if is == -1 then answer[i - 3] = -1
  else
    if holder(item) == id then
      if not expires then redis.call('SREM', KEYS[i], member) end
      redis.call('HDEL', KEYS[2], item)
    end
    redis.call('HDEL', KEYS[4], item)
    answer[i - 3] = 1
  end
end
if redis.call('HLEN', KEYS[4]) <= 1 then
  redis.call('DEL', KEYS[4])
  redis.call('ZREM', KEYS[3], id)
end
return answer
`)

// swept is the maximum number of reservations that one Sweep removes in each group.
const swept = 100

// Sweep removes reservations that ended long ago: Redis frees their memory, and that of items
// that they never committed, which are new already. Any daemon may call it at any time.
func (l *Leases) Sweep(ctx context.Context) error {
	var cmds [forgotten.Groups]*redis.Cmd
	_, err := l.servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range cmds {
			if l.log.Reserving(g) {
				cmds[g] = due.Eval(ctx, p, []string{l.dueKey(g)}, swept)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for g, cmd := range cmds {
		if cmd == nil {
			continue
		}
		ids, err := cmd.StringSlice()
		if err != nil {
			return err
		}
		for _, text := range ids {
			if err := l.sweep(ctx, g, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep removes the part of a reservation in a group.
func (l *Leases) sweep(ctx context.Context, g int, text string) error {
	id, ok := forgotten.Decode(text)
	if !ok { // of another program
		return l.servers.Batches.ZRem(ctx, l.dueKey(g), text).Err()
	}
	part, err := l.servers.Batches.HKeys(ctx, l.partKey(g, engine.Reservation(id))).Result()
	if err != nil {
		return err
	}
	var keys []bloom.Hash
	for _, item := range part {
		if key, ok := forgotten.Decode(item); ok && forgotten.GroupOf(key) == g {
			keys = append(keys, key)
		}
	}
	w := l.work(letGo, l.keysOf(engine.Reservation(id)), text)
	if len(keys) == 0 {
		return l.log.RunIn(ctx, &w, g)
	}
	return l.log.Run(ctx, &w, keys)
}
