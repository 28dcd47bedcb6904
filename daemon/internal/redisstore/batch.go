package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// pieceItems bounds a pipeline: so many test-and-sets travel before their replies are read.
const pieceItems = 4000

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

// verdict is what became of a question.
type verdict int

const (
	seen verdict = iota
	fresh
	unknown // the connection broke before the reply: executed or not
	undone  // not executed, or in a stripe that has lost its head and will be replaced
)

func (q *question) verdict(head int64) verdict {
	if err := q.Err(); err != nil {
		return verdictOf(err)
	}
	replies := q.Val()
	if len(replies) < 2 || replies[0] != head {
		return undone
	}
	for _, old := range replies[1:] {
		if old == 0 {
			return fresh
		}
	}
	return seen
}

// verdictOf tells what became of a command that ended in err.
func verdictOf(err error) verdict {
	if isRedisError(err) || notSent(err) {
		return undone
	}
	return unknown
}

func isRedisError(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, redis.ErrClosed)
}

// notSent tells whether err came before the command left this process.
func notSent(err error) bool {
	return isDial(err) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, errReplica) || errors.Is(err, errNotSynced)
}

// ask sends the questions of a batch in pieces, and stops after the first that fails.
// Those that were not sent have no verdict but undone.
func (s *set) ask(ctx context.Context, keys []bloom.Hash, missing []uint8, op string) ([]question, error) {
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
	for start := 0; start < len(questions); start += pieceItems {
		piece := questions[start:min(start+pieceItems, len(questions))]
		enough := func() error { return nil }
		_, err := s.store.client.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
			for i := range piece {
				if err := p.Process(ctx, &piece[i]); err != nil {
					return err
				}
			}
			if op == "set" {
				enough, err = s.store.confirm(ctx, p)
			}
			return err
		})
		if err == nil {
			err = enough()
		}
		if err != nil {
			for i := start + len(piece); i < len(questions); i++ {
				questions[i].SetErr(errNotAsked)
			}
			return questions, err
		}
	}
	return questions, nil
}

var errNotAsked = fmt.Errorf("not asked: %w", redis.ErrClosed)
