package leases

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// chunk is the maximum number of items of one call of a script: other commands wait for it.
const chunk = 500

// notHere is what a script says of an item that is not kept in the place where the script looked:
// nothing was done.
const notHere = -1

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

// script is a text, and the name under which servers that have loaded it know it.
type script struct{ text, sha string }

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }

// call is a script for items of one group. It is not sent twice: the second time, it might find
// what it has done itself.
type call struct {
	redis.Cmd
	group  int
	keys   []bloom.Hash
	places []forgotten.Place
	text   bool // the server does not have the script, and is sent its text
}

// NoRetry keeps go-redis from sending it again after its reply was lost.
func (*call) NoRetry() bool { return true }

// work is what a script is to do with items.
type work struct {
	script script
	keys   func(g int) []string // the places of the items follow them
	args   []any                // before those of the items
	client redis.UniversalClient
	writes bool // the replicas that redis.replicas demands must have it
	// answered receives the first number of each answer, note what became of each item.
	answered func(number int64)
	note     func(key bloom.Hash, place forgotten.Place, status int64)

	done   int          // items of which something is known
	unsure []bloom.Hash // whose replies were lost
}

// inDoubt returns how many items may have been changed by work that has failed.
func (w *work) inDoubt() int { return w.done + len(w.unsure) }

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

// split divides keys into calls, each for keys of one group.
func split(keys []bloom.Hash) (all []*call) {
	var open [forgotten.Groups]*call
	for _, key := range keys {
		g := forgotten.GroupOf(key)
		if open[g] == nil || len(open[g].keys) == chunk {
			open[g] = &call{group: g}
			all = append(all, open[g])
		}
		open[g].keys = append(open[g].keys, key)
	}
	return all
}

// execute does the work with calls. Items that turn out to be in other places are looked for
// there.
func (l *Leases) execute(ctx context.Context, w *work, left []*call) error {
	for len(left) > 0 {
		n := min(len(left), max(forgotten.Groups, servers.PieceItems/chunk))
		again, err := l.doPiece(ctx, w, left[:n])
		if err != nil {
			return err
		}
		left = append(again, left[n:]...)
	}
	return nil
}

func (l *Leases) doPiece(ctx context.Context, w *work, piece []*call) (again []*call, err error) {
	enough := func() error { return nil }
	_, sent := w.client.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		for _, c := range piece {
			l.prepare(ctx, w, c)
			if err := p.Process(ctx, c); err != nil {
				return err
			}
		}
		if w.writes {
			enough, err = l.servers.Confirm(ctx, p)
		}
		return err
	})
	var elsewhere []bloom.Hash
	for _, c := range piece {
		switch cerr := c.Err(); {
		case cerr == nil:
			keys, trouble := l.read(w, c)
			elsewhere = append(elsewhere, keys...)
			if err == nil {
				err = trouble
			}
		case redis.HasErrorPrefix(cerr, "NOSCRIPT") && !c.text:
			again = append(again, &call{group: c.group, keys: c.keys, text: true})
			sent = nil
		default:
			if servers.VerdictOf(cerr) == servers.Unknown {
				w.unsure = append(w.unsure, c.keys...)
			}
			if err == nil {
				err = cerr
			}
		}
	}
	if err == nil {
		err = sent
	}
	if err == nil && len(again) < len(piece) {
		err = enough()
	}
	return append(again, split(elsewhere)...), err
}

// prepare looks up where the items are.
func (l *Leases) prepare(ctx context.Context, w *work, c *call) {
	keys := w.keys(c.group)
	args := make([]any, 0, 4+len(keys)+len(w.args)+3*len(c.keys))
	if c.text {
		args = append(args, "eval", w.script.text)
	} else {
		args = append(args, "evalsha", w.script.sha)
	}
	args = append(args, len(keys)+len(c.keys))
	for _, key := range keys {
		args = append(args, key)
	}
	c.places = make([]forgotten.Place, len(c.keys))
	for i, key := range c.keys {
		c.places[i] = l.items.Place(key)
		args = append(args, c.places[i].Key)
	}
	args = append(append(args, l.expires), w.args...)
	for i, key := range c.keys {
		args = append(args, forgotten.Encode(key), c.places[i].Member)
	}
	c.Cmd = *redis.NewCmd(ctx, args...)
}

// read evaluates an answer. elsewhere are items that must be looked for in other places.
func (l *Leases) read(w *work, c *call) (elsewhere []bloom.Hash, err error) {
	answer, err := c.Int64Slice()
	if err == nil && len(answer) != 1+len(c.keys) && len(answer) != 1 {
		err = fmt.Errorf("unexpected answer %v", answer)
	}
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", l.log.LeasesKey(c.group), err)
	}
	if answer[0] == -1 {
		return nil, fmt.Errorf("key %s: %w", l.log.Witness(c.group), insync.ErrLost)
	}
	if w.answered != nil {
		w.answered(answer[0])
	}
	for i, key := range c.keys {
		status := int64(0)
		if len(answer) > 1 {
			status = answer[1+i]
		}
		if status == notHere {
			if err := l.items.Moved(key, c.places[i]); err != nil {
				return nil, err
			}
			elsewhere = append(elsewhere, key)
			continue
		}
		if status != 0 {
			w.done++
		}
		w.note(key, c.places[i], status)
	}
	return elsewhere, nil
}
