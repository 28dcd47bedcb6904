package exact

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// What is done with an item in its set. The reply 1 means new for SADD, and seen for SISMEMBER.
const (
	opAdd = "sadd"
	opHas = "sismember"
)

// question is one item's SADD or SISMEMBER.
type question struct {
	itemset.Question
	node node
	size *redis.IntCmd // of the set, if it was asked for; else nil
}

// dialogue is what a batch asks and hears.
type dialogue struct {
	itemset.Dialogue
	op string
}

// sampled is the number of items of which one also asks for the size of its set: often enough
// that a set is noticed between three quarters of what it may have and all of it.
const sampled = 16

// sendQuestions sends a question for each key that is wanted, in pieces, and stops after the
// first piece that fails. It hears of the groups of these keys, and of those in listen.
func (s *Set) sendQuestions(ctx context.Context, d *dialogue, wanted []int, listen uint64) error {
	yes, no := servers.Fresh, servers.Seen
	if d.op == opHas {
		yes, no = no, yes
	}
	var moved []*question
	for ; len(moved)+len(wanted) > 0 || listen != 0; listen = 0 {
		piece := moved
		n := min(servers.PieceItems-len(moved), len(wanted))
		for _, i := range wanted[:n] {
			piece = append(piece, &question{Question: itemset.Question{Index: i}, node: s.tree.leaf(d.Keys[i])})
		}
		wanted = wanted[n:]
		var err error
		moved, err = s.askPiece(ctx, d, piece, listen)
		for _, q := range piece {
			if err != nil || !forgotten.IsMoved(q.Err()) {
				d.Hear(&q.Question, yes, no)
			}
		}
		if err != nil {
			d.NotAsked(wanted)
			return err
		}
	}
	return nil
}

// askPiece sends a pipeline, and after it the question for the witnesses. moved are the questions
// that must go to other nodes: nothing was done for them.
func (s *Set) askPiece(ctx context.Context, d *dialogue, piece []*question, listen uint64) (moved []*question, err error) {
	s.counting.RLock()
	defer s.counting.RUnlock()
	for _, q := range piece {
		listen |= 1 << q.node.group()
	}
	var hear func(*forgotten.Marks) error
	enough := func() error { return nil }
	_, sent := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		if err := s.send(ctx, p, d, piece); err != nil {
			return err
		}
		if hear, err = s.Removals.ReadWitnesses(ctx, p, listen); err != nil {
			return err
		}
		if d.op == opAdd && len(piece) > 0 {
			enough, err = s.Servers.Confirm(ctx, p)
		}
		return err
	})
	large := map[node]bool{}
	for _, q := range piece {
		switch qerr := q.Err(); {
		case forgotten.IsMoved(qerr):
			if q.node.level >= deepest {
				return nil, registry.Foreign(string(q.node.appendKey(nil, s.Prefix)))
			}
			s.tree.note(q.node)
			moved = append(moved, q)
		case qerr != nil:
			if err == nil {
				err = qerr
			}
		case q.Val() && d.op == opAdd:
			s.items.add(q.node.root, 1)
		}
		if q.size != nil && q.size.Err() == nil && q.size.Val() >= s.full.Load() && q.node.level < deepest {
			large[q.node] = true
		}
	}
	if err == nil && sent != nil && !forgotten.IsMoved(sent) && !errors.Is(sent, redis.Nil) {
		err = sent
	}
	if err == nil {
		err = hear(&d.Heard) // a witness that does not exist is its affair
	}
	if err == nil {
		err = enough()
	}
	if err != nil {
		return moved, err
	}
	s.divide(ctx, large)
	for _, q := range moved {
		q.node = s.tree.leaf(d.Keys[q.Index])
	}
	return moved, nil
}

// send puts the questions of a piece into a pipeline.
func (s *Set) send(ctx context.Context, p redis.Pipeliner, d *dialogue, piece []*question) error {
	args := make([]any, 0, 3*len(piece))
	var buf []byte
	for _, q := range piece {
		key := d.Keys[q.Index]
		start := len(args)
		buf = q.node.appendKey(buf[:0], s.Prefix)
		name := string(buf)
		args = append(args, d.op, name, s.tree.number(key))
		q.BoolCmd = *redis.NewBoolCmd(ctx, args[start:len(args):len(args)]...)
		if err := p.Process(ctx, q); err != nil {
			return err
		}
		q.size = nil
		if d.op == opAdd && key.Hi%sampled == 0 {
			q.size = redis.NewIntCmd(ctx, "scard", name)
			if err := p.Process(ctx, q.size); err != nil {
				return err
			}
		}
	}
	return nil
}
