package leases

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// settle commits or releases items of a reservation. Further KEYS: the reservations of the
// group, and the part. Further ARGV: the reservation, the new state of the items, and for how
// many milliseconds they count as seen after that. It returns 0 if there is no part. For each
// item it returns 0: lost, 1: done, 2: was done before.
//
// An item whose lease has ended may have been taken by a plain batch: in a timing filter the
// key then has the value 1, in an exact filter there is no lease any more.
var settle = forgotten.NewScript(prelude + `
if redis.call('EXISTS', KEYS[4]) == 0 then return {0} end
local id, to = ARGV[2], ARGV[3]
local answer = {1}
for i = 5, #KEYS do
  local item, member = ARGV[2 * i - 5], ARGV[2 * i - 4]
  local state = redis.call('HGET', KEYS[4], item)
  local status = 0
  if state == to then status = 2
  elseif state == 'H' then
    local is = look(KEYS[i], member)
    if is == -1 then status = -1
    elseif holder(item) ~= id or expires and is == '1' then redis.call('HSET', KEYS[4], item, 'L')
    else
      status = 1
      if to == 'C' and expires then redis.call('SET', KEYS[i], '1', 'PX', ARGV[4])
      elseif to == 'C' then redis.call('SADD', KEYS[i], member)
      elseif expires then redis.call('DEL', KEYS[i])
      else redis.call('SREM', KEYS[i], member) end
      redis.call('HDEL', KEYS[2], item)
      redis.call('HSET', KEYS[4], item, to)
    end
  end
  answer[i - 3] = status
end
return answer
`)

// Settlement is what became of the items of a Commit or Release.
type Settlement struct {
	engine.Settled
	Now     []bloom.Hash // done by this call, and by none before
	InDoubt int          // on an error: how many may be done
}

// Commit carries out the Commit of engine.Reserving.
func (l *Leases) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (Settlement, error) {
	return l.settle(ctx, id, keys, lost, committed, released, expire)
}

// Release carries out the Release of engine.Reserving.
func (l *Leases) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (Settlement, error) {
	return l.settle(ctx, id, keys, lost, released, committed, 0)
}

// settle puts keys into the state to; nil: all items of the reservation that are not in the
// state but.
func (l *Leases) settle(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool, to, but string, expire time.Duration) (s Settlement, err error) {
	known := false
	if keys == nil {
		parts, some, err := l.parts(ctx, l.servers.Batches, id)
		if err != nil {
			return s, err
		}
		known = some
		for _, part := range parts {
			for item, state := range part {
				if key, ok := forgotten.Decode(item); ok && state != but {
					keys = append(keys, key)
				}
			}
		}
		lost = make([]bool, len(keys))
	}
	some, became := distinct(keys)
	w := l.work(settle, l.keysOf(id), forgotten.Encode(bloom.Hash(id)), to, expire.Milliseconds())
	w.Writes = true
	w.Answered = func(g int, part int64) error {
		known = known || part == 1
		return l.whole(g, part)
	}
	w.Note = func(key bloom.Hash, _ forgotten.Place, status int64) {
		became[key] = status
		if status == 1 {
			s.Now = append(s.Now, key)
		}
	}
	if err := l.log.Run(ctx, &w, some); err != nil {
		return Settlement{InDoubt: len(s.Now) + len(w.Unsure)}, err
	}
	if !known {
		if _, known, err = l.parts(ctx, l.servers.Batches, id); err != nil {
			return s, err
		}
	}
	if !known {
		return s, fmt.Errorf("%w: %s", engine.ErrNoReservation, id)
	}
	for i, key := range keys {
		if lost[i] = became[key] == 0; lost[i] {
			s.Lost++
		}
	}
	for _, key := range some {
		if became[key] != 0 {
			s.Done++
		}
	}
	return s, nil
}
