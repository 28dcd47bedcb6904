package forgotten

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
)

// removeScript removes items from Redis, counts and logs them, in one step. KEYS: the witness, the log,
// the leases, and the key of each item. ARGV: the expected count of the witness, or an empty
// string; how many items the log keeps; and for each item its 16 bytes and its member. It
// returns the count, or -1 if the witness is missing, and for each item 1: removed, 0: did not
// exist, -1: not kept in that place. If the count is not the expected one, it returns only the
// count.
//
// A lease ends with its item, which does not count as seen. If a count is expected, an item on
// which somebody has a lease is left alone: it is not the one that was put there. See package
// leases for how leases are kept.
//
// In a group without a witness nothing is counted: no batch trusts it.
var removeScript = NewScript(`
local reserved = 1099511627776
local at = tonumber(redis.call('GET', KEYS[1]) or '')
if at then at = at % reserved end
local undo = ARGV[1] ~= ''
if at and undo and at ~= tonumber(ARGV[1]) then return {at} end
local done, gone = {0}, {}
for i = 4, #KEYS do
  local item, member = ARGV[2 * i - 5], ARGV[2 * i - 4]
  local held, was
  if member == '' then
    local value = redis.call('GET', KEYS[i])
    held = value and value ~= '1'
  else
    held = redis.call('HEXISTS', KEYS[3], item) == 1
  end
  if undo and held then
    was = 0
  else
    if member == '' then was = redis.call('DEL', KEYS[i]) else was = redis.pcall('SREM', KEYS[i], member) end
    if type(was) == 'table' then
      if string.sub(was.err, 1, 9) ~= 'WRONGTYPE' then return was end
      was = -1
    else
      if not undo then redis.call('HDEL', KEYS[3], item) end
      if held then was = 0 end
    end
  end
  done[i - 2] = was
  if was == 1 then gone[#gone + 1] = item end
end
if at and #gone > 0 then
  at = redis.call('INCRBY', KEYS[1], #gone) % reserved
  redis.call('RPUSH', KEYS[2], unpack(gone))
  redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
end
done[1] = at or -1
return done
`)

// Removal tells what became of items that were to be removed.
type Removal struct {
	Removed []bloom.Hash // they existed
	Unsure  []bloom.Hash // the reply was lost
	Left    []bloom.Hash // nothing was done
}

// Remove uses c to remove keys from Redis, for all daemons, and from the mirror; of equal keys,
// only the first counts as removed. If marks is not nil, it removes only items of groups in
// which nothing was forgotten since marks; it leaves the others, and follows the log.
func (l *Log) Remove(ctx context.Context, c redis.UniversalClient, keys []bloom.Hash, marks *Marks) (r Removal, err error) {
	heard, lost := NoMarks(), false
	w := Work{
		Script: removeScript, Client: c, Writes: marks == nil, // an undo is not acknowledged
		Keys: func(g int) []string { return []string{l.keys[g].witness, l.keys[g].log, l.keys[g].leases} },
		Args: func(g int) []any {
			if marks == nil {
				return []any{"", Keep}
			}
			return []any{marks[g], Keep}
		},
		Answered: func(g int, at int64) error {
			lost = lost || at == Unknown
			heard[g] = max(heard[g], at)
			return nil
		},
		Note: func(key bloom.Hash, _ Place, was int64) {
			if was == 1 {
				r.Removed = append(r.Removed, key)
			}
		},
	}
	err = l.Run(ctx, &w, keys)
	r.Unsure, r.Left = w.Unsure, w.Left
	if err != nil {
		return r, err
	}
	if lost {
		return r, fmt.Errorf("a witness is gone: %w", insync.ErrLost)
	}
	_ = l.Follow(ctx, c, &heard) // if this fails, batches do it
	return r, nil
}
