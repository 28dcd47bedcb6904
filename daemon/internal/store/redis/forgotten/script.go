package forgotten

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// chunk is the maximum number of items of one call of a script: other commands wait for it, and its
// arguments must fit on the stack of Lua.
const chunk = 500

// NotHere is what a script says of an item that is not kept in the place where the script looked:
// nothing was done.
const NotHere = -1

// Script is a text, and the name under which servers that have loaded it know it.
type Script struct{ text, sha string }

// NewScript returns the script of a text. Its KEYS are those of the work, then the key of each item's place;
// its ARGV those of the work, then the 16 bytes and the member of each item. It answers with a number and
// what became of each item, or with the number alone if nothing was done.
func NewScript(text string) Script { return Script{text, redis.NewScript(text).Hash()} }

// Work is what a script is to do with items, which it receives by their groups.
type Work struct {
	Script Script
	Keys   func(g int) []string
	Args   func(g int) []any
	Client redis.UniversalClient
	Writes bool // the replicas that redis.replicas demands must have it
	// Answered receives the number of each answer; its error ends the work. Note receives what became of
	// each item, except NotHere.
	Answered func(g int, number int64) error
	Note     func(key bloom.Hash, place Place, status int64)

	Done   int          // items with another status than 0
	Unsure []bloom.Hash // whose replies were lost
	Left   []bloom.Hash // with which nothing was done
}

// call is a script for items of one group. It is not sent twice: the second time, it might find what
// it has done itself.
type call struct {
	redis.Cmd
	group  int
	keys   []bloom.Hash
	places []Place
	text   bool // the server does not have the script, and is sent its text
}

// NoRetry keeps go-redis from sending it again after its reply was lost.
func (*call) NoRetry() bool { return true }

// split divides keys into calls, each for keys of one group.
func split(keys []bloom.Hash) (all []*call) {
	var open [Groups]*call
	for _, key := range keys {
		g := GroupOf(key)
		if open[g] == nil || len(open[g].keys) == chunk {
			open[g] = &call{group: g}
			all = append(all, open[g])
		}
		open[g].keys = append(open[g].keys, key)
	}
	return all
}

// Run does the work with keys. Items that turn out to be in other places are looked for there.
func (l *Log) Run(ctx context.Context, w *Work, keys []bloom.Hash) error {
	return l.run(ctx, w, split(keys))
}

// RunIn does the work of a group without items.
func (l *Log) RunIn(ctx context.Context, w *Work, g int) error {
	return l.run(ctx, w, []*call{{group: g}})
}

func (l *Log) run(ctx context.Context, w *Work, todo []*call) error {
	for len(todo) > 0 {
		n := min(len(todo), max(Groups, servers.PieceItems/chunk))
		again, err := l.runPiece(ctx, w, todo[:n])
		todo = append(again, todo[n:]...)
		if err != nil {
			for _, c := range todo {
				w.Left = append(w.Left, c.keys...)
			}
			return err
		}
	}
	return nil
}

func (l *Log) runPiece(ctx context.Context, w *Work, piece []*call) (again []*call, err error) {
	enough := func() error { return nil }
	_, sent := w.Client.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		for _, c := range piece {
			l.prepare(ctx, w, c)
			if err := p.Process(ctx, c); err != nil {
				return err
			}
		}
		if w.Writes {
			enough, err = l.servers.Confirm(ctx, p)
		}
		return err
	})
	var elsewhere []bloom.Hash
	for _, c := range piece {
		switch failed := c.Err(); {
		case failed == nil:
			keys, trouble := l.readAnswer(w, c)
			elsewhere = append(elsewhere, keys...)
			if err == nil {
				err = trouble
			}
		case redis.HasErrorPrefix(failed, "NOSCRIPT") && !c.text:
			again = append(again, &call{group: c.group, keys: c.keys, text: true})
			sent = nil
		default:
			if servers.VerdictOf(failed) == servers.Unknown {
				w.Unsure = append(w.Unsure, c.keys...)
			} else {
				w.Left = append(w.Left, c.keys...)
			}
			if err == nil {
				err = failed
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
func (l *Log) prepare(ctx context.Context, w *Work, c *call) {
	keys, more := w.Keys(c.group), w.Args(c.group)
	args := make([]any, 0, 3+len(keys)+len(more)+3*len(c.keys))
	if c.text {
		args = append(args, "eval", w.Script.text)
	} else {
		args = append(args, "evalsha", w.Script.sha)
	}
	args = append(args, len(keys)+len(c.keys))
	for _, key := range keys {
		args = append(args, key)
	}
	c.places = make([]Place, len(c.keys))
	for i, key := range c.keys {
		c.places[i] = l.items.Place(key)
		args = append(args, c.places[i].Key)
	}
	args = append(args, more...)
	for i, key := range c.keys {
		args = append(args, Encode(key), c.places[i].Member)
	}
	c.Cmd = *redis.NewCmd(ctx, args...)
}

// readAnswer evaluates an answer. elsewhere are items that must be looked for in other places.
func (l *Log) readAnswer(w *Work, c *call) (elsewhere []bloom.Hash, err error) {
	answer, err := c.Int64Slice()
	if err == nil && len(answer) != 1+len(c.keys) && len(answer) != 1 {
		err = fmt.Errorf("unexpected answer %v", answer)
	}
	if err != nil {
		w.Left = append(w.Left, c.keys...)
		return nil, fmt.Errorf("key %s: %w", l.LeasesKey(c.group), err)
	}
	if err := w.Answered(c.group, answer[0]); err != nil {
		return nil, err
	}
	if len(answer) == 1 {
		w.Left = append(w.Left, c.keys...)
		return nil, nil
	}
	for i, key := range c.keys {
		status := answer[1+i]
		if status == NotHere {
			if trouble := l.items.Moved(key, c.places[i]); trouble != nil && err == nil {
				err = trouble
			}
			elsewhere = append(elsewhere, key)
			continue
		}
		if status != 0 {
			w.Done++
		}
		w.Note(key, c.places[i], status)
	}
	return elsewhere, err
}
