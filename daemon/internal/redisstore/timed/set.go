// Package timed has filters of the kind timing in Redis: items as keys that expire there, the
// witnesses that tell whether Redis has lost some, and the mirror of what was accepted here.
package timed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/filter"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// Set is a filter of the kind timing. Each item is a key in Redis that expires there, by
// the clock of that server: `SET key 1 PX ms NX` makes it, in one step, for one caller of
// all daemons.
//
// The items fall into groups, and each group's keys share a hash tag with its witness, a
// key that is there as long as Redis has lost nothing. It is asked for behind the items
// of each pipeline, so that no answer counts that a Redis gave which was flushed.
//
// The mirror has the items that this daemon has accepted, with the time at which they were
// sent: Redis forgets none of them earlier. So they need not travel, and when Redis has
// lost data they are put back. Of what other daemons accepted it knows nothing.
type Set struct {
	filter.Common
	prefix string // of the keys
	mirror *timing.Table

	undos undos
}

var (
	_ engine.Timed    = (*Set)(nil)
	_ filter.Expiring = (*Set)(nil)
	_ filter.Filter   = (*Set)(nil)
)

// groups is the number of witnesses, and of slots in a cluster: a mask has them all.
const groups = 64

func groupOf(key bloom.Hash) int { return int(key.Hi >> 58) }

// New is the filter of an entry, without anything in it.
func New(l *filter.Link, e registry.Entry) *Set {
	return &Set{
		Common: filter.Common{Link: l, Entry: e},
		prefix: registry.TimedPrefix(e),
		mirror: timing.New(timing.SystemClock()),
	}
}

// Witness is the key that is there as long as Redis has lost nothing of group g.
func (s *Set) Witness(g int) string {
	return s.prefix + string(hexDigits[g>>4]) + string(hexDigits[g&15]) + "}"
}

const hexDigits = "0123456789abcdef"

func (s *Set) key(dst []byte, key bloom.Hash) []byte {
	g := groupOf(key)
	dst = append(dst, s.prefix...)
	dst = append(dst, hexDigits[g>>4], hexDigits[g&15], '}')
	dst = binary.BigEndian.AppendUint64(dst, key.Hi)
	return binary.BigEndian.AppendUint64(dst, key.Lo)
}

// Add implements engine.Set.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	if s.Spec.Expire() == 0 {
		return 0, fmt.Errorf("filter %s: neither filter nor call says when items expire", s.Spec.Name)
	}
	return s.AddFor(ctx, keys, s.Spec.Expire(), isNew)
}

// AddFor implements engine.Timed.
//
// A caller who hangs up does not stop it: a batch that was sent is to be known.
func (s *Set) AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, isNew []bool) (int, error) {
	if err := s.Enter(); err != nil {
		return 0, err
	}
	defer s.Use.RUnlock()
	s.State.Flight.RLock()
	defer s.State.Flight.RUnlock()
	if _, err := s.State.Check(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.undoPending(ctx, s.Servers.Batches); err != nil {
		return 0, s.Trouble(ctx, err)
	}
	until := s.mirror.Now() + expire.Milliseconds()
	s.mirror.Has(keys, isNew)
	questions, err := s.ask(ctx, keys, isNew, expire)
	if err != nil {
		return 0, s.broken(ctx, keys, questions, until, err)
	}
	accepted := make([]bloom.Hash, 0, len(questions))
	for i := range questions {
		q := &questions[i]
		if isNew[q.index] = q.Val(); q.Val() {
			accepted = append(accepted, keys[q.index])
		}
	}
	// Whatever the system says to a larger mirror, Redis has these items.
	if _, err := s.mirror.AddUntil(accepted, until, make([]bool, len(accepted))); err != nil {
		s.Log.Warn("no memory to mirror what was accepted; it is not put back should redis lose it", "filter", s.Spec.Name, "err", err)
	}
	return len(accepted), nil
}

// broken sorts out a batch that failed. Items that were new, and of which nobody is told
// now, are taken out of Redis; of those whose reply was lost it cannot be known whether
// they were. Only where all of them are out was nothing remembered.
func (s *Set) broken(ctx context.Context, keys []bloom.Hash, questions []question, until int64, err error) error {
	var untold []undoItem
	unsure := 0
	for i := range questions {
		v := questions[i].verdict()
		if v == servers.Unknown {
			unsure++
		}
		if v == servers.Fresh || v == servers.Unknown && s.DoubtIsNew {
			untold = append(untold, undoItem{keys[questions[i].index], until})
		}
	}
	if errors.Is(err, servers.ErrTooFewReplicas) {
		unsure += len(untold) // a replica may have them, and never hear that they are taken out
	}
	err = s.Trouble(ctx, err)
	if undo := s.undo(ctx, s.Servers.Batches, untold); undo != nil {
		unsure += len(untold)
		s.Log.Debug("items of a batch that failed are still in redis", "filter", s.Spec.Name, "items", len(untold), "err", undo)
	}
	return filter.InDoubt(err, unsure)
}

// Has implements engine.Set.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Use.RUnlock()
	if _, err := s.State.Check(); err != nil {
		return err
	}
	s.mirror.Has(keys, isNew)
	questions, err := s.ask(ctx, keys, isNew, 0)
	if err != nil {
		return s.Trouble(ctx, err)
	}
	for i := range questions {
		q := &questions[i]
		isNew[q.index] = !q.Val()
	}
	return nil
}

// Memory implements engine.Timed: of the mirror.
func (s *Set) Memory() uint64 { return s.mirror.Memory() }

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.Entry.Seed }

// Stats implements engine.Set: of the mirror, for Redis cannot count the keys of one filter.
func (s *Set) Stats() engine.Stats {
	st := s.mirror.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: s.Gen}
}

// Sweep implements filter.Expiring.
func (s *Set) Sweep() error { return s.mirror.Sweep() }

// Free implements filter.Filter.
func (s *Set) Free() error { return s.mirror.Close() }

// question is one item's SET or EXISTS.
type question struct {
	redis.BoolCmd
	index int // in the batch
}

// NoRetry keeps go-redis from sending a pipeline again whose replies were lost: the
// second time every item would look seen.
func (*question) NoRetry() bool { return true }

func (q *question) verdict() servers.Verdict {
	switch err := q.Err(); {
	case err != nil:
		return servers.VerdictOf(err)
	case q.Val():
		return servers.Fresh
	}
	return servers.Seen
}

// ask sends a command for each key that is wanted, in pieces, and stops after the first
// that fails: SET for those that are to expire, EXISTS where expire is 0. Those that were
// not sent have no verdict but undone.
func (s *Set) ask(ctx context.Context, keys []bloom.Hash, wanted []bool, expire time.Duration) ([]question, error) {
	n := 0
	for _, is := range wanted {
		if is {
			n++
		}
	}
	questions := make([]question, 0, n)
	args := make([]any, 0, 6*n)
	var ms any = strconv.FormatInt(expire.Milliseconds(), 10)
	var buf []byte
	for i, is := range wanted {
		if !is {
			continue
		}
		start := len(args)
		buf = s.key(buf[:0], keys[i])
		if expire == 0 {
			args = append(args, "exists", string(buf))
		} else {
			// "1" is a value that Redis need not allocate.
			args = append(args, "set", string(buf), "1", "px", ms, "nx")
		}
		questions = append(questions, question{BoolCmd: *redis.NewBoolCmd(ctx, args[start:len(args):len(args)]...), index: i})
	}
	for start := 0; start < len(questions); start += servers.PieceItems {
		piece := questions[start:min(start+servers.PieceItems, len(questions))]
		if err := s.askPiece(ctx, keys, piece, expire != 0); err != nil {
			for i := start + len(piece); i < len(questions); i++ {
				questions[i].SetErr(servers.ErrNotAsked)
			}
			return questions, err
		}
	}
	return questions, nil
}

// askPiece sends a pipeline, and behind it the question for the witnesses of its groups.
// sets says that it changes something.
func (s *Set) askPiece(ctx context.Context, keys []bloom.Hash, piece []question, sets bool) error {
	var witnesses [groups]*redis.BoolCmd
	enough := func() error { return nil }
	_, err := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) (err error) {
		mask := uint64(0)
		for i := range piece {
			mask |= 1 << groupOf(keys[piece[i].index])
			if err := p.Process(ctx, &piece[i]); err != nil {
				return err
			}
		}
		for g := range groups {
			if mask>>g&1 == 0 {
				continue
			}
			witnesses[g] = redis.NewBoolCmd(ctx, "exists", s.Witness(g))
			if err := p.Process(ctx, witnesses[g]); err != nil {
				return err
			}
		}
		if sets {
			enough, err = s.Servers.Confirm(ctx, p)
		}
		return err
	})
	if err == nil {
		err = enough()
	}
	for _, w := range witnesses {
		if err == nil && w != nil && w.Err() == nil && !w.Val() {
			err = insync.ErrLost
		}
	}
	return err
}
