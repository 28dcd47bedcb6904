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
	expire time.Duration // 0: nothing is to be set
}

// sendQuestions sends a command for each wanted key, in pieces, and stops after the first piece
// that fails: SET for keys that are to expire, EXISTS if expire is 0. It reads the witnesses of
// the groups of these keys, and of those in listen.
func (s *Set) sendQuestions(ctx context.Context, d *dialogue, wanted []int, listen uint64) error {
	yes, no := servers.Fresh, servers.Seen
	if d.expire == 0 {
		yes, no = no, yes
	}
	for ; len(wanted) > 0 || listen != 0; listen = 0 {
		piece := s.questions(ctx, d, wanted[:min(servers.PieceItems, len(wanted))])
		wanted = wanted[len(piece):]
		err := s.askPiece(ctx, d, piece, listen)
		for i := range piece {
			d.Hear(&piece[i], yes, no)
		}
		if err != nil {
			d.NotAsked(wanted)
			return err
		}
	}
	return nil
}

// questions returns those about some keys.
func (s *Set) questions(ctx context.Context, d *dialogue, wanted []int) []itemset.Question {
	all := make([]itemset.Question, len(wanted))
	args := make([]any, 0, 6*len(wanted))
	var ms any = strconv.FormatInt(d.expire.Milliseconds(), 10)
	var buf []byte
	for n, i := range wanted {
		start := len(args)
		buf = s.key(buf[:0], d.Keys[i])
		if d.expire == 0 {
			args = append(args, "exists", string(buf))
		} else {
			// "1" is a value that Redis need not allocate.
			args = append(args, "set", string(buf), "1", "px", ms, "nx")
		}
		all[n].BoolCmd, all[n].Index = *redis.NewBoolCmd(ctx, args[start:len(args):len(args)]...), i
	}
	return all
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
