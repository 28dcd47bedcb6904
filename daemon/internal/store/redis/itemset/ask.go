package itemset

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Question is the query for one item.
type Question struct {
	redis.BoolCmd
	Index int // in the batch
}

// NoRetry keeps go-redis from resending a pipeline whose replies were lost: the second time,
// every item would look seen.
func (*Question) NoRetry() bool { return true }

// Verdict returns what the reply says about the item.
func (q *Question) Verdict() servers.Verdict {
	switch err := q.Err(); {
	case err != nil:
		return servers.VerdictOf(err)
	case q.Val():
		return servers.Fresh
	}
	return servers.Seen
}

// Dialogue is what a batch asks and hears.
type Dialogue struct {
	Keys  []bloom.Hash
	Marks forgotten.Marks // before the first question
	Heard forgotten.Marks // after the last one
}

// Open begins a dialogue. It must be called before the mirror is read.
func (s *Set) Open(keys []bloom.Hash) Dialogue {
	return Dialogue{Keys: keys, Marks: s.Removals.Marks(), Heard: forgotten.NoMarks()}
}

// Untold returns the item of a question, for the case that no caller is told of it.
func (d *Dialogue) Untold(q *Question) forgotten.Untold {
	key := d.Keys[q.Index]
	return forgotten.Untold{Key: key, Mark: d.Marks[forgotten.GroupOf(key)]}
}

// Ask queries the keys that the mirror does not have, which isNew marks, and those that were
// forgotten since the mirror was read. send must read the witnesses of the groups of the wanted
// keys, and of those in listen. All of isNew is false afterwards.
func (s *Set) Ask(ctx context.Context, d *Dialogue, isNew []bool, send func(wanted []bool, listen uint64) error) error {
	var listen uint64
	var known []bloom.Hash
	var at []int // positions of known in the batch
	for i, is := range isNew {
		if !is {
			known, at = append(known, d.Keys[i]), append(at, i)
			listen |= 1 << forgotten.GroupOf(d.Keys[i])
		}
	}
	if err := send(isNew, listen); err != nil {
		return err
	}
	clear(isNew)
	if err := s.Removals.FollowFrom(ctx, s.Servers.Batches, &d.Marks, &d.Heard); err != nil {
		return err
	}
	gone, again := make([]bool, len(known)), make([]bool, len(d.Keys))
	s.Removals.Forgotten(&d.Marks, known, gone)
	some := false
	for k, is := range gone {
		again[at[k]] = is
		some = some || is
	}
	if !some {
		return nil
	}
	return send(again, 0)
}
