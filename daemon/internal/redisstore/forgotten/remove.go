package forgotten

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// chunk is how many items one script takes out: its arguments must fit Lua's stack.
const chunk = 500

// take takes items out of Redis, counts and logs them, in one step. KEYS: the witness, the log,
// the leases, and the key of each item. ARGV: the count of the witness that is wanted, or ”; how
// many the log keeps; and for each item its 16 bytes and its member. Returns the count, -1 where
// the witness is gone, and of each item 1: taken out, 0: was not there, -1: not kept there.
// Only the count is returned where it is not the one that is wanted.
//
// A lease ends with its item, which was not seen. With a count that is wanted an item that
// somebody has a lease of is left: it is not the one that was put there. See package leases for
// how they are kept.
//
// Of a group that has no witness nothing is counted: no batch trusts it.
const take = `
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

// taking is one script. It is not sent twice: the second time its items do not exist.
type taking struct {
	redis.Cmd
	keys   []bloom.Hash
	places []Place
	group  int
}

// elsewhere are items that are to be looked for in other places than these.
type elsewhere struct {
	keys   []bloom.Hash
	places []Place
}

// NoRetry keeps go-redis from sending it again after its reply was lost.
func (*taking) NoRetry() bool { return true }

// Removal is what became of items that were to be taken out.
type Removal struct {
	Removed []bloom.Hash // they were there
	Unsure  []bloom.Hash // the reply was lost
	Left    []bloom.Hash // nothing was done
}

// Remove takes keys out of Redis by c, for all daemons, and out of the mirror; of equal ones
// the first is there. With marks only where nothing was forgotten of an item's group since; the
// others are left, and the log is followed.
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
			if marks == nil { // what is undone is not acknowledged
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
	_ = l.Follow(ctx, c, &heard) // batches do so if this did not
	return r, nil
}

// takings are scripts for keys, which are of one group each.
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
	args = append(args, "eval", take, 3+len(t.keys), names.witness, names.log, names.leases)
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
	if len(answer) != 1+len(t.keys) { // another count than was wanted
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
