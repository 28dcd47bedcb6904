package bitmap

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// question is one item's BITFIELD: it reads the stripe's head, and sets (or reads) the
// bits that the mirror lacks. The replies are the head and the old bits, all at one
// moment: the item is new if a bit was 0, and the reply counts if the head was there.
type question struct {
	redis.IntSliceCmd
	index int // in the batch
}

// NoRetry keeps go-redis from sending a pipeline again whose replies were lost: the
// second time every item would look seen.
func (*question) NoRetry() bool { return true }

func (q *question) verdict(head int64) servers.Verdict {
	if err := q.Err(); err != nil {
		return servers.VerdictOf(err)
	}
	replies := q.Val()
	if len(replies) < 2 || replies[0] != head {
		return servers.Undone
	}
	for _, old := range replies[1:] {
		if old == 0 {
			return servers.Fresh
		}
	}
	return servers.Seen
}

// ask sends the questions of a batch in pieces, and stops after the first that fails.
// Those that were not sent have no verdict but undone.
func (s *Set) ask(ctx context.Context, keys []bloom.Hash, missing []uint8, op string) ([]question, error) {
	n := 0
	for _, m := range missing {
		if m != 0 {
			n++
		}
	}
	questions := make([]question, 0, n)
	args := make([]any, 0, n*(5+4*8))
	h := s.bits.Header()
	for i, m := range missing {
		if m == 0 {
			continue
		}
		stripe, bits := h.Place(keys[i])
		start := len(args)
		args = append(args, "bitfield", s.boxedKeys[stripe], "get", "i64", 0)
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
