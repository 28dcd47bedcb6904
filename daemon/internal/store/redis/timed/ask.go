package timed

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// dialogue is what a batch asks and hears.
type dialogue struct {
	itemset.Dialogue
	expire    time.Duration      // 0: nothing is to be set
	questions []itemset.Question // SET, or EXISTS
}

// sendQuestions sends a command for each wanted key, in pieces, and stops after the first piece
// that fails: SET for keys that are to expire, EXISTS if expire is 0. It reads the witnesses of
// the groups of these keys, and of those in listen. Commands that were not sent have the
// verdict servers.Undone.
func (s *Set) sendQuestions(ctx context.Context, d *dialogue, wanted []bool, listen uint64) error {
	n := 0
	for _, is := range wanted {
		if is {
			n++
		}
	}
	first := len(d.questions)
	args := make([]any, 0, 6*n)
	var ms any = strconv.FormatInt(d.expire.Milliseconds(), 10)
	var buf []byte
	for i, is := range wanted {
		if !is {
			continue
		}
		start := len(args)
		buf = s.key(buf[:0], d.Keys[i])
		if d.expire == 0 {
			args = append(args, "exists", string(buf))
		} else {
			// "1" is a value that Redis need not allocate.
			args = append(args, "set", string(buf), "1", "px", ms, "nx")
		}
		d.questions = append(d.questions, itemset.Question{BoolCmd: *redis.NewBoolCmd(ctx, args[start:len(args):len(args)]...), Index: i})
	}
	for rest := d.questions[first:]; len(rest) > 0 || listen != 0; listen = 0 {
		piece := rest[:min(servers.PieceItems, len(rest))]
		rest = rest[len(piece):]
		if err := s.askPiece(ctx, d, piece, listen); err != nil {
			for i := range rest {
				rest[i].SetErr(servers.ErrNotAsked)
			}
			return err
		}
	}
	return nil
}

// askPiece sends the questions in a pipeline, followed by the query for the witnesses.
func (s *Set) askPiece(ctx context.Context, d *dialogue, piece []itemset.Question, listen uint64) error {
	var hear func(*forgotten.Marks) error
	enough := func() error { return nil }
	_, err := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		for i := range piece {
			listen |= 1 << forgotten.GroupOf(d.Keys[piece[i].Index])
			if err := p.Process(ctx, &piece[i]); err != nil {
				return err
			}
		}
		if hear, err = s.Removals.ReadWitnesses(ctx, p, listen); err != nil {
			return err
		}
		if d.expire != 0 && len(piece) > 0 {
			enough, err = s.Servers.Confirm(ctx, p)
		}
		return err
	})
	if errors.Is(err, redis.Nil) {
		err = nil // a witness that does not exist: see below
	}
	if err == nil {
		err = hear(&d.Heard)
	}
	if err == nil {
		err = enough()
	}
	return err
}
