package forgotten

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Redis may lose the latest removals: it then has items again that must not count as seen, and
// counts from a lower number. So before daemons put back what they know, each of them restores
// the log as far as it has followed it: the longest log wins. The witnesses stay as they are
// until that is done, because a missing one shows that data was lost.

// followedTTL is how long Redis keeps the count to which daemons had followed.
const followedTTL = 24 * time.Hour

// longest puts the log ARGV[3...], which ends at the count ARGV[1], into KEYS[2], unless a
// daemon has put one there that is at least as long, or the witness KEYS[1] has reached that
// count. KEYS[3] keeps the count until the witness has it, for at most ARGV[2] seconds.
var longest = redis.NewScript(`
local at = tonumber(ARGV[1])
for _, key in ipairs({KEYS[1], KEYS[3]}) do
  local has = tonumber(redis.call('GET', key) or '')
  if has and has % 1099511627776 >= at then return 0 end
end
redis.call('DEL', KEYS[2])
if #ARGV > 2 then redis.call('RPUSH', KEYS[2], unpack(ARGV, 3)) end
redis.call('SET', KEYS[3], at, 'EX', ARGV[2])
return 1
`)

// createScript creates the witness KEYS[1] if it is missing, raises its count to that of KEYS[2] if that
// is higher, adds Reserved if the leases KEYS[3] exist, and returns 1 if the witness was
// missing. A value that is not a number counts as missing.
const createScript = `
local reserved = 1099511627776
local was = tonumber(redis.call('GET', KEYS[1]) or '')
local at = math.max((was or 0) % reserved, tonumber(redis.call('GET', KEYS[2]) or '') or 0)
if (was or 0) >= reserved or redis.call('EXISTS', KEYS[3]) == 1 then at = at + reserved end
if at ~= was then redis.call('SET', KEYS[1], string.format('%.0f', at)) end
redis.call('DEL', KEYS[2])
return was and 0 or 1
`

// read reads all witnesses with the admin client; Unknown: a witness is missing. It also asks for the other
// keys, so that the error is the same whenever one of them is of another type.
func (l *Log) read(ctx context.Context) (marks Marks, whole bool, err error) {
	var cmds [Groups]*redis.StringCmd
	all, err := l.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range Groups {
			cmds[g] = p.Get(ctx, l.keys[g].witness)
			p.LRange(ctx, l.keys[g].log, 0, 0)
			p.Get(ctx, l.keys[g].followed)
			p.HLen(ctx, l.keys[g].leases)
		}
		return nil
	})
	if len(all) == 0 {
		return marks, false, err
	}
	for _, cmd := range all {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return marks, false, err
		}
	}
	marks, whole = NoMarks(), true
	for g, cmd := range cmds {
		if cmd.Err() != nil || l.heard(&marks, g, cmd.Val()) != nil {
			whole = false
		}
	}
	return marks, whole, nil
}

// Whole reports whether all witnesses exist, and follows the log.
func (l *Log) Whole(ctx context.Context) (bool, error) {
	marks, whole, err := l.read(ctx)
	if err != nil || !whole {
		return false, err
	}
	return true, l.Follow(ctx, l.servers.Admin, &marks)
}

// Restore makes sure that Redis has the log as far as this daemon has followed it, and that no
// item of the log is in Redis. No batch may be under way. If witnesses are missing, Restore
// calls dropped: the keys of a filter that was dropped are not created again.
func (l *Log) Restore(ctx context.Context, dropped func(context.Context) (bool, error)) error {
	there, whole, err := l.read(ctx)
	if err != nil {
		return err
	}
	if !whole {
		if gone, err := dropped(ctx); err != nil || gone {
			return err
		}
	}
	for g := range Groups {
		l.mu.RLock()
		at, last := l.groups[g].at, append([]bloom.Hash(nil), l.groups[g].last...)
		l.mu.RUnlock()
		if at <= 0 || there[g] >= at {
			continue
		}
		again := last // the items that Redis may have again
		if n := at - there[g]; there[g] != Unknown && n < int64(len(last)) {
			again = last[int64(len(last))-n:]
		}
		if err := l.takeOut(ctx, again); err != nil {
			return err
		}
		args := []any{at, int(followedTTL.Seconds())}
		for _, key := range last {
			args = append(args, Encode(key))
		}
		if err := longest.Run(ctx, l.servers.Admin, []string{l.keys[g].witness, l.keys[g].log, l.keys[g].followed}, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// takeOut removes items from Redis without counting them.
func (l *Log) takeOut(ctx context.Context, keys []bloom.Hash) error {
	return l.AtPlaces(ctx, keys, func(p redis.Pipeliner, key bloom.Hash, at Place) (cmd redis.Cmder) {
		if at.Member == "" {
			cmd = p.Unlink(ctx, at.Key)
		} else {
			cmd = p.SRem(ctx, at.Key, at.Member)
		}
		p.HDel(ctx, l.LeasesKey(GroupOf(key)), Encode(key))
		return cmd
	})
}

// AtPlaces uses the admin client to send for each of keys what send adds to a pipeline: a command for
// the place of the item, which it returns, and others. Items that turn out to be in other places are
// looked for there.
func (l *Log) AtPlaces(ctx context.Context, keys []bloom.Hash, send func(p redis.Pipeliner, key bloom.Hash, at Place) redis.Cmder) error {
	for len(keys) > 0 {
		cmds := make([]redis.Cmder, len(keys))
		places := make([]Place, len(keys))
		_, err := l.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				places[i] = l.items.Place(key)
				cmds[i] = send(p, key, places[i])
			}
			return nil
		})
		var moved []bloom.Hash
		for i, cmd := range cmds {
			switch {
			case cmd.Err() == nil:
			case !IsMoved(cmd.Err()):
				return cmd.Err()
			default:
				if err := l.items.Moved(keys[i], places[i]); err != nil {
					return err
				}
				moved = append(moved, keys[i])
			}
		}
		if err != nil && len(moved) == 0 {
			return err
		}
		keys = moved
	}
	return nil
}

// CreateWitnesses creates the missing witnesses, and reports whether any was missing. They go on counting
// from where the daemons have followed.
func (l *Log) CreateWitnesses(ctx context.Context) (missing bool, err error) {
	cmds := make([]*redis.Cmd, Groups)
	_, err = l.servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range Groups {
			cmds[g] = p.Eval(ctx, createScript, []string{l.keys[g].witness, l.keys[g].followed, l.keys[g].leases})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for g, cmd := range cmds {
		n, err := cmd.Int()
		if err != nil {
			return missing, fmt.Errorf("key %s: %w", l.keys[g].witness, err)
		}
		missing = missing || n == 1
	}
	return missing, nil
}
