package leases

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// reserveScript gives items to a reservation. Further KEYS: the reservations of the group, and the part.
// Further ARGV: the reservation; how many milliseconds its lease lasts; for how many
// milliseconds at least the reservation stays known after that; and the size from which a set
// counts as large. For each item it returns 0: seen, 1: taken, 2: held by another, 3: taken,
// and its set is large.
//
// An item that the reservation already holds is taken again, and nothing changes. Once a
// reservation is known in a group, its part there keeps its end.
var reserveScript = forgotten.NewScript(prelude + `
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

// Reserve carries out the Reserve of engine.Reserving. A set is large if it has full or more
// members: for each item that was taken in a large set, Reserve calls large with the item and
// the level of its place. On an error, inDoubt is how many items may have been taken.
func (l *Leases) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool,
	full int64, large func(key bloom.Hash, level uint8)) (result engine.Reserved, inDoubt int, err error) {
	some, became := distinct(keys)
	w := l.work(reserveScript, l.keysOf(id), forgotten.Encode(bloom.Hash(id)), lease.Milliseconds(), engine.KeptSettled.Milliseconds(), full)
	w.Writes = true
	w.Note = func(key bloom.Hash, place forgotten.Place, status int64) {
		if status == takenLarge {
			status = taken
			large(key, place.Level)
		}
		if became[key] = status; status == taken {
			l.log.NoteReserving(forgotten.GroupOf(key))
		}
	}
	if err := l.log.Run(ctx, &w, some); err != nil {
		return result, w.Done + len(w.Unsure), err
	}
	for i, key := range keys {
		fresh[i] = became[key] == taken
		switch became[key] {
		case taken:
			result.Fresh++
			became[key] = 0 // an equal one is not fresh
		case ofAnother:
			result.Held++
		}
	}
	return result, 0, nil
}

// resolve tells whether items that are in their sets are seen, and with ARGV[2] 'add' adds
// those that are new. For each item it returns 0: seen, 1: new, 2: held by another.
var resolve = forgotten.NewScript(prelude + `
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

// Resolution is what Resolve has found out; each of several equal items is listed by itself.
type Resolution struct {
	New    []bloom.Hash
	Seen   []bloom.Hash
	Unsure []bloom.Hash // whose replies were lost
}

// Resolve finds out which items are new and which are seen; the others are held. The items were
// found in their sets, in groups of which items were ever reserved. If add is true, Resolve
// also adds the new items.
func (l *Leases) Resolve(ctx context.Context, keys []bloom.Hash, add bool) (r Resolution, err error) {
	op := "has"
	if add {
		op = "add"
	}
	w := l.work(resolve, func(g int) []string { return []string{l.log.Witness(g), l.log.LeasesKey(g)} }, op)
	w.Writes = add
	w.Note = func(key bloom.Hash, _ forgotten.Place, status int64) {
		switch status {
		case 0:
			r.Seen = append(r.Seen, key)
		case 1:
			r.New = append(r.New, key)
		}
	}
	err = l.log.Run(ctx, &w, keys)
	r.Unsure = w.Unsure
	return r, err
}
