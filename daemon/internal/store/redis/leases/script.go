package leases

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
)

// prelude is the beginning of all scripts. KEYS: the witness and the leases of a group; then
// those of the script; last the key of each item's place. ARGV: whether items expire; then
// those of the script; last the 16 bytes and the member of each item. A script returns a number
// and what became of each item, or -1 alone if the witness is missing and nothing was done.
//
// 2^40 is forgotten.Reserved.
const prelude = `
local counted = tonumber(redis.call('GET', KEYS[1]) or '')
if not counted then return {-1} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local expires = ARGV[1] == '1'
local function holder(item)
  local lease = redis.call('HGET', KEYS[2], item)
  if lease then return string.sub(lease, 1, 16), tonumber(string.sub(lease, 17)) end
end
local function look(key, member)
  if expires then return redis.call('GET', key) end
  local is = redis.pcall('SISMEMBER', key, member)
  if type(is) == 'table' then
    if string.sub(is.err, 1, 9) ~= 'WRONGTYPE' then error(is.err) end
    return -1
  end
  return is
end
local function number(n) return string.format('%.0f', n) end
`

// work returns what a script of this package is to do.
func (l *Leases) work(script forgotten.Script, keys func(g int) []string, args ...any) forgotten.Work {
	args = append([]any{l.expires}, args...)
	return forgotten.Work{
		Script: script, Client: l.servers.Batches, Keys: keys, Args: func(int) []any { return args },
		Answered: l.whole, Note: func(bloom.Hash, forgotten.Place, int64) {},
	}
}

// whole returns insync.ErrLost if a script has found no witness of a group.
func (l *Leases) whole(g int, number int64) error {
	if number == -1 {
		return fmt.Errorf("key %s: %w", l.log.Witness(g), insync.ErrLost)
	}
	return nil
}

// distinct returns keys without repetitions, and a map for what becomes of each.
func distinct(keys []bloom.Hash) (some []bloom.Hash, became map[bloom.Hash]int64) {
	became = make(map[bloom.Hash]int64, len(keys))
	some = make([]bloom.Hash, 0, len(keys))
	for _, key := range keys {
		if _, equal := became[key]; !equal {
			became[key] = 0
			some = append(some, key)
		}
	}
	return some, became
}
