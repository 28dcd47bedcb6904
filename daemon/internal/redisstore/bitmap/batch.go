package bitmap

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// question is one item's BITFIELD: it reads the stripe's head, and sets (or reads) the
// bits that the mirror lacks. The replies are the head and the old bits, all at one
// moment: the item is new if a bit was 0, and the reply counts if the head was there.
type question struct {
	redis.IntSliceCmd
	index int // in the batch
}

// moved is the verdict of a stripe that is closed and did not have the item: the next layer
// decides.
const moved servers.Verdict = -1

// NoRetry keeps go-redis from sending a pipeline again whose replies were lost: the
// second time every item would look seen.
func (*question) NoRetry() bool { return true }

func (q *question) verdict(l *layer) servers.Verdict {
	if err := q.Err(); err != nil {
		return servers.VerdictOf(err)
	}
	replies := q.Val()
	if len(replies) < 2 || replies[0] != l.open && replies[0] != l.closed {
		return servers.Undone
	}
	for _, old := range replies[1:] {
		if old == 0 && replies[0] == l.closed {
			return moved
		}
		if old == 0 {
			return servers.Fresh
		}
	}
	return servers.Seen
}

// turned is how many bits were 0.
func (q *question) turned() (n uint64) {
	for _, old := range q.Val()[1:] {
		n += uint64(1 - old)
	}
	return n
}

// decide asks Redis about the items that the mirrors lack: op is set, or get to look only. It
// sets the verdicts of those, also of some when it returns an error.
func (s *Set) decide(ctx context.Context, keys []bloom.Hash, verdicts []servers.Verdict, op string) error {
	missing := make([]uint8, len(keys))
	layers := s.layers()
	last := layers[len(layers)-1]
	last.mirror.Missing(keys, missing)
	if err := s.findClosed(ctx, layers[:len(layers)-1], keys, missing); err != nil {
		return err
	}
	for first := true; ; first = false {
		again, err := s.decideIn(ctx, last, keys, missing, op, verdicts, first)
		if err != nil || len(again) == 0 {
			return err
		}
		if last, err = s.grow(ctx, last); err != nil {
			return err
		}
		clear(missing)
		words := make([]uint8, 1)
		for _, i := range again {
			if last.mirror.Missing(keys[i:i+1], words); words[0] == 0 {
				verdicts[i] = servers.Seen
			}
			missing[i] = words[0]
		}
	}
}

// decideIn is decide for the layer l. It returns the items of which the next one decides. first
// tells that no layer before it was asked: an item that was set in one is in doubt until a
// later one has decided.
func (s *Set) decideIn(ctx context.Context, l *layer, keys []bloom.Hash, missing []uint8, op string, verdicts []servers.Verdict, first bool) (again []int, err error) {
	questions, err := s.ask(ctx, l, keys, missing, op)
	var decided []bloom.Hash
	for i := range questions {
		q := &questions[i]
		v := q.verdict(l)
		switch {
		case v == moved:
			again = append(again, q.index)
			v = servers.Unknown
		case v == servers.Undone && err == nil:
			if err = q.Err(); err == nil {
				err = insync.ErrLost
			}
			fallthrough
		case v == servers.Undone || v == servers.Unknown:
			if err == nil {
				err = q.Err()
			}
			if !first {
				v = servers.Unknown
			}
		default:
			decided = append(decided, keys[q.index])
			if v == servers.Fresh && op == "set" && !l.mirror.whole() {
				stripe, _ := l.header.Place(keys[q.index])
				l.counts.add(stripe, q.turned())
			}
		}
		verdicts[q.index] = v
	}
	if err == nil && op == "set" {
		l.mirror.Learn(decided)
	}
	return again, err
}

// ask sends the questions of a batch in pieces, and stops after the first that fails.
// Those that were not sent have no verdict but undone.
func (s *Set) ask(ctx context.Context, l *layer, keys []bloom.Hash, missing []uint8, op string) ([]question, error) {
	n := 0
	for _, m := range missing {
		if m != 0 {
			n++
		}
	}
	questions := make([]question, 0, n)
	args := make([]any, 0, n*(5+4*8))
	for i, m := range missing {
		if m == 0 {
			continue
		}
		stripe, bits := l.header.Place(keys[i])
		start := len(args)
		args = append(args, "bitfield", l.boxedKeys[stripe], "get", "i64", 0)
		for w, at := range bits {
			if m>>w&1 == 0 {
				continue
			}
			args = append(args, op, "u1", int(at)+headBytes*8)
			if op == "set" {
				args = append(args, 1)
			}
		}
		questions = append(questions, question{*redis.NewIntSliceCmd(ctx, args[start:len(args):len(args)]...), i})
	}
	for start := 0; start < len(questions); start += servers.PieceItems {
		piece := questions[start:min(start+servers.PieceItems, len(questions))]
		enough := func() error { return nil }
		_, err := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
			for i := range piece {
				if err := p.Process(ctx, &piece[i]); err != nil {
					return err
				}
			}
			if op == "set" {
				enough, err = s.Servers.Confirm(ctx, p)
			}
			return err
		})
		if err == nil {
			err = enough()
		}
		if err != nil {
			for i := start + len(piece); i < len(questions); i++ {
				questions[i].SetErr(servers.ErrNotAsked)
			}
			return questions, err
		}
	}
	return questions, nil
}
