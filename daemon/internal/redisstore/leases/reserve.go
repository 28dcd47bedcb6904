package leases

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
)

// take gives items to a reservation. KEYS: also the reservations of the group, and the part. ARGV:
// also the reservation; milliseconds that its lease takes, and that it is known at least after
// it; and the size from which on a set is large. Of each item 0: seen, 1: taken, 2: another
// holds it, 3: taken, and its set is large.
//
// What it holds already is taken once more, and nothing changes. Once known, it keeps its end,
// of each part.
var take = newScript(prelude + `
local id, made = ARGV[2], now
local ends = now + tonumber(ARGV[3])
local known = redis.call('HGET', KEYS[4], ':')
if known then
  local from, to = string.match(known, '^(%d+) (%d+)$')
  made, ends = tonumber(from), tonumber(to)
end
local answer, taken = {0}, {}
for i = 5, #KEYS do
  local item, member = ARGV[2 * i - 4], ARGV[2 * i - 3]
  local is = look(KEYS[i], member)
  local by, till
  if not expires then by, till = holder(item) end
  local status
  if is == -1 then status = -1
  elseif expires and is == '1' or is == 1 and not by then status = 0
  elseif expires and is == id or is == 1 and by == id then status = 1
  elseif expires and is or is == 1 and till > now then status = 2
  else
    status = 1
    if expires then
      if ends > now then redis.call('SET', KEYS[i], id, 'PX', number(ends - now)) end
    elseif redis.call('SADD', KEYS[i], member) == 1 and redis.call('SCARD', KEYS[i]) >= tonumber(ARGV[5]) then
      status = 3
    end
    redis.call('HSET', KEYS[2], item, id .. number(ends))
    taken[#taken + 1] = item
    taken[#taken + 1] = 'H'
  end
  answer[i - 3] = status
end
if #taken > 0 then
  if counted < 1099511627776 then redis.call('INCRBY', KEYS[1], '1099511627776') end
  redis.call('HSET', KEYS[4], unpack(taken))
  if not known then
    redis.call('HSET', KEYS[4], ':', number(made) .. ' ' .. number(ends))
    redis.call('ZADD', KEYS[3], number(ends + math.max(ends - made, tonumber(ARGV[4]))), id)
  end
end
return answer
`)

const (
	taken      = 1
	takenLarge = 3
	ofAnother  = 2
)

// Reserve is that of engine.Reserving. full is the size from which on a set is large: large is
// told of an item that was taken in one, and in which place. unacked is, on an error, how many items may have
// been taken.
func (l *Leases) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool,
	full int64, large func(key bloom.Hash, level uint8)) (result engine.Reserved, unacked int, err error) {
	some, became := distinct(keys)
	w := work{
		script: take, keys: l.keysOf(id), client: l.servers.Batches, writes: true,
		args: []any{forgotten.Encode(bloom.Hash(id)), lease.Milliseconds(), engine.KeptSettled.Milliseconds(), full},
		note: func(key bloom.Hash, place forgotten.Place, status int64) {
			if status == takenLarge {
				status = taken
				large(key, place.Level)
			}
			if became[key] = status; status == taken {
				l.log.NoteReserving(forgotten.GroupOf(key))
			}
		},
	}
	if err := l.execute(ctx, &w, split(some)); err != nil {
		return result, w.unacked(), err
	}
	for i, key := range keys {
		fresh[i] = became[key] == taken
		switch became[key] {
		case taken:
			result.Fresh++
			became[key] = 0 // an equal one is not
		case ofAnother:
			result.Held++
		}
	}
	return result, 0, nil
}

// resolve tells of items that are in their sets whether they are seen, and for ARGV[2] 'add' adds those
// that are not. Of each item 0: seen, 1: new, 2: another holds it.
var resolve = newScript(prelude + `
local answer = {0}
for i = 3, #KEYS do
  local item, member = ARGV[2 * i - 3], ARGV[2 * i - 2]
  local is = look(KEYS[i], member)
  local by, till = holder(item)
  local status = 1
  if is == -1 then status = -1
  elseif is == 1 and not by then status = 0
  elseif is == 1 and till > now then status = 2
  elseif ARGV[2] == 'add' then
    redis.call('SADD', KEYS[i], member)
    redis.call('HDEL', KEYS[2], item)
  end
  answer[i - 1] = status
end
return answer
`)

// Resolution is what Resolve has found out, of equal items each by itself.
type Resolution struct {
	New    []bloom.Hash
	Seen   []bloom.Hash
	Unsure []bloom.Hash // whose replies were lost
}

// Resolve is for items that were found in their sets, in groups of which items were ever
// reserved: it adds, or with add false only tells, which are new, and which are seen. The
// others are held.
func (l *Leases) Resolve(ctx context.Context, keys []bloom.Hash, add bool) (r Resolution, err error) {
	op := "has"
	if add {
		op = "add"
	}
	w := work{
		script: resolve, client: l.servers.Batches, writes: add, args: []any{op},
		keys: func(g int) []string { return []string{l.log.Witness(g), l.log.LeasesKey(g)} },
		note: func(key bloom.Hash, _ forgotten.Place, status int64) {
			switch status {
			case 0:
				r.Seen = append(r.Seen, key)
			case 1:
				r.New = append(r.New, key)
			}
		},
	}
	err = l.execute(ctx, &w, split(keys))
	r.Unsure = w.unsure
	return r, err
}
