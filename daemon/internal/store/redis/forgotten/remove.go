package forgotten

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// chunk is the maximum number of items that one script removes: its arguments must fit on the
// stack of Lua.
const chunk = 500

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
const removeScript = `
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
`

// taking is one call of the script. It is not sent twice: the second time, its items would not
// exist.
type taking struct {
	redis.Cmd
	keys   []bloom.Hash
	places []Place
	group  int
}

// elsewhere are items that must be looked for in other places than these.
type elsewhere struct {
	keys   []bloom.Hash
	places []Place
}

// NoRetry keeps go-redis from sending the script again after its reply was lost.
func (*taking) NoRetry() bool { return true }

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
	heard := NoMarks()
	lost := false
	for todo := l.takings(keys); len(todo) > 0 && err == nil; {
		n := min(len(todo), servers.PieceItems/chunk)
		piece := todo[:n]
		todo = todo[n:]
		enough := func() error { return nil }
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
			for _, t := range piece {
				t.prepare(ctx, l, marks)
				if err := p.Process(ctx, t); err != nil {
					return err
				}
			}
			if marks == nil { // an undo is not acknowledged
				enough, err = l.servers.Confirm(ctx, p)
			}
			return err
		})
		if err == nil {
			err = enough()
		}
		for _, t := range piece {
			moved, gone := r.note(t, &heard)
			lost = lost || gone
			for i, key := range moved.keys {
				if trouble := l.items.Moved(key, moved.places[i]); trouble != nil && err == nil {
					err = trouble
				}
			}
			todo = append(todo, l.takings(moved.keys)...)
		}
		if err != nil {
			for _, t := range todo {
				r.Left = append(r.Left, t.keys...)
			}
		}
	}
	if err != nil {
		return r, err
	}
	if lost {
		return r, fmt.Errorf("a witness is gone: %w", insync.ErrLost)
	}
	_ = l.Follow(ctx, c, &heard) // if this fails, batches do it
	return r, nil
}

// takings returns scripts that remove keys; each is for keys of one group.
func (l *Log) takings(keys []bloom.Hash) (all []*taking) {
	var open [Groups]*taking
	for _, key := range keys {
		g := GroupOf(key)
		if open[g] == nil || len(open[g].keys) == chunk {
			open[g] = &taking{group: g}
			all = append(all, open[g])
		}
		open[g].keys = append(open[g].keys, key)
	}
	return all
}

// prepare looks up where the items are.
func (t *taking) prepare(ctx context.Context, l *Log, marks *Marks) {
	names := l.keys[t.group]
	args := make([]any, 0, 8+3*len(t.keys))
	args = append(args, "eval", removeScript, 3+len(t.keys), names.witness, names.log, names.leases)
	t.places = t.places[:0]
	for _, key := range t.keys {
		place := l.items.Place(key)
		t.places = append(t.places, place)
		args = append(args, place.Key)
	}
	var wanted any = ""
	if marks != nil {
		wanted = marks[t.group]
	}
	args = append(args, wanted, Keep)
	for i, key := range t.keys {
		args = append(args, Encode(key), t.places[i].Member)
	}
	t.Cmd = *redis.NewCmd(ctx, args...)
}

// note sorts the items of a script by what became of them. lost: the witness is gone.
func (r *Removal) note(t *taking, heard *Marks) (moved elsewhere, lost bool) {
	answer, err := t.Int64Slice()
	switch {
	case err != nil && servers.VerdictOf(err) == servers.Unknown:
		r.Unsure = append(r.Unsure, t.keys...)
		return moved, false
	case err != nil || len(answer) == 0:
		r.Left = append(r.Left, t.keys...)
		return moved, false
	}
	if lost = answer[0] == Unknown; !lost {
		heard[t.group] = max(heard[t.group], answer[0])
	}
	if len(answer) != 1+len(t.keys) { // not the expected count
		r.Left = append(r.Left, t.keys...)
		return moved, lost
	}
	for i, was := range answer[1:] {
		switch was {
		case 1:
			r.Removed = append(r.Removed, t.keys[i])
		case -1:
			moved.keys, moved.places = append(moved.keys, t.keys[i]), append(moved.places, t.places[i])
		}
	}
	return moved, lost
}
