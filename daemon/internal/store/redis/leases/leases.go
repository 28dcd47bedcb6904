// Package leases has the reservations of items of a filter in Redis: who holds an item and
// until when, what became of the items of a reservation, and the scripts that decide both.
//
// A group's leases are a hash that maps each held item to its holder and the end of the lease.
// The items of a group that a reservation has taken are its part: also a hash, which maps each
// of them to what became of it. A script changes item, lease and part of one group in one step,
// by the clock of the server, so that all daemons see the same, and none of them has to stay
// alive.
//
// A held item is in its place, like a seen one. So a plain SADD or SET NX does not get it,
// whatever the daemon that sends it knows about leases:
//
//   - in a timing filter it is a key whose value is the reservation, and which expires with the
//     lease: then the item is new for everybody;
//   - in an exact filter it is a member of its set like any other, and new when the lease has
//     ended. The witness of a group tells whether items of it were ever reserved
//     (forgotten.Reserved). Because the witness is read after each batch, a daemon knows from the
//     first lease on that an item that it has found may be held, and Resolves it before it answers
//     or mirrors it.
//
// A lease that has ended remains until somebody takes the item or the reservation is swept:
// until somebody has taken it, its holder may commit the item.
//
// The package does not know where items are kept.
package leases

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Leases are the leases of one filter.
type Leases struct {
	servers *servers.Servers
	log     *forgotten.Log
	expires string // "1": items are keys that expire; "0": members of sets
}

// New returns the leases of a filter with that log; expires: the items are keys that expire.
func New(s *servers.Servers, log *forgotten.Log, expires bool) *Leases {
	l := &Leases{servers: s, log: log, expires: "0"}
	if expires {
		l.expires = "1"
	}
	return l
}

// dueKey returns the key of a sorted set of the reservations that have a part in group g, by
// when they are due to be swept.
func (l *Leases) dueKey(g int) string { return l.log.Witness(g) + ":reservations" }

// partKey returns the key of what a reservation has taken of group g: items, and what became of
// each; the field ':' has when the reservation was made and when it ends.
func (l *Leases) partKey(g int, id engine.Reservation) string {
	return l.log.Witness(g) + ":reserved:" + forgotten.Encode(bloom.Hash(id))
}

// What became of an item of a reservation. A lost item ('L' in the scripts) was taken by
// another, or forgotten.
const (
	held      = "H"
	committed = "C"
	released  = "R"
)

// keysOf returns the keys of a group's leases and of a reservation's part, for a script.
func (l *Leases) keysOf(id engine.Reservation) func(g int) []string {
	return func(g int) []string {
		return []string{l.log.Witness(g), l.log.LeasesKey(g), l.dueKey(g), l.partKey(g, id)}
	}
}

// parts uses c to read what a reservation has taken of each group: an empty map if that is
// nothing.
func (l *Leases) parts(ctx context.Context, c redis.UniversalClient, id engine.Reservation) (all [forgotten.Groups]map[string]string, known bool, err error) {
	var cmds [forgotten.Groups]*redis.MapStringStringCmd
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range cmds {
			cmds[g] = p.HGetAll(ctx, l.partKey(g, id))
		}
		return nil
	})
	if err != nil {
		return all, false, err
	}
	for g, cmd := range cmds {
		all[g] = cmd.Val()
		known = known || len(all[g]) > 0
	}
	return all, known, nil
}

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
