// Package itemset has what is common to the filters that keep single items in Redis, those of
// the kinds exact and timing: how a batch begins, queries and fails, how an item is forgotten,
// and how a filter resyncs. It does not know where items are kept, or what a mirror contains.
package itemset

import (
	"context"
	"errors"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/leases"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Set is the part of a filter that is the same for both kinds.
type Set struct {
	base.Common
	Prefix   string // of the keys
	Removals *forgotten.Log
	Leases   *leases.Leases

	items Items
	undos forgotten.Queue
}

// Items are the items of a filter of one kind.
type Items interface {
	forgotten.Items
	// Remove removes from Redis the items that are to be forgotten.
	Remove(ctx context.Context, keys []bloom.Hash) (forgotten.Removal, error)
	// Undo uses c to remove from Redis the items that no caller was told of. left are those
	// that wait for the next time.
	Undo(ctx context.Context, c redis.UniversalClient, items []forgotten.Untold) (left []forgotten.Untold, err error)
	// Resend puts the contents of the mirror into Redis.
	Resend(ctx context.Context) error
}

// Init makes s the set of an entry. expires: items are keys that expire.
func (s *Set) Init(l *base.Link, e registry.Entry, items Items, expires bool) {
	s.Link, s.Entry, s.items = l, e, items
	s.Prefix = registry.ItemPrefix(e)
	s.Removals = forgotten.New(l.Servers, s.Prefix, items)
	s.Leases = leases.New(l.Servers, s.Removals, expires)
}

// Witness returns the key that exists as long as Redis has lost nothing of group g.
func (s *Set) Witness(g int) string { return s.Removals.Witness(g) }

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.Entry.Seed }

// InvalidateForgotten implements base.Forgetful.
func (s *Set) InvalidateForgotten() { s.Removals.InvalidateForgotten() }

// WorkFor implements engine.Working: the questions of a piece, and what is kept of each item.
func (s *Set) WorkFor(items int) int64 {
	return 400*int64(min(items, servers.PieceItems)) + 100*int64(items)
}

// Begin lets a batch begin, unless servers are not in sync. Until end is called, everything
// that is learned from Redis comes from these servers.
func (s *Set) Begin() (end func(), err error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	s.State.Flight.RLock()
	end = func() {
		s.State.Flight.RUnlock()
		s.Use.RUnlock()
	}
	if err := s.Check(); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// BeginChange is Begin for a batch that changes the data in Redis. It removes what earlier
// batches have left. The batch must use the context that is returned, which does not end when
// the caller hangs up: the outcome of a batch that was sent must become known.
func (s *Set) BeginChange(ctx context.Context) (_ context.Context, end func(), err error) {
	if end, err = s.Begin(); err != nil {
		return ctx, nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := s.undoPending(ctx, s.Servers.Batches); err != nil {
		end()
		return ctx, nil, s.EngineError(ctx, err)
	}
	return ctx, end, nil
}

// Forget implements engine.Forgetful.
func (s *Set) Forget(ctx context.Context, keys []bloom.Hash) (int, error) {
	ctx, end, err := s.BeginChange(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	r, err := s.items.Remove(ctx, keys)
	if err != nil {
		return 0, shared.InDoubt(s.EngineError(ctx, err), len(r.Removed)+len(r.Unsure), "forgotten")
	}
	return len(r.Removed), nil
}

// Release implements engine.Reserving.
func (s *Set) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	end, err := s.Begin()
	if err != nil {
		return engine.Settled{}, err
	}
	defer end()
	got, err := s.Leases.Release(context.WithoutCancel(ctx), id, keys, lost)
	return s.Settled(ctx, got, err)
}

// Settled returns the answer to a Commit or Release.
func (s *Set) Settled(ctx context.Context, got leases.Settlement, err error) (engine.Settled, error) {
	if errors.Is(err, engine.ErrNoReservation) {
		return engine.Settled{}, err
	}
	return got.Settled, shared.InDoubt(s.EngineError(ctx, err), got.InDoubt, "reserved, committed or released")
}

// SweepLeases implements base.Leasing.
func (s *Set) SweepLeases(ctx context.Context) error {
	end, err := s.Begin()
	if err != nil {
		return nil // not in sync, or dropped
	}
	defer end()
	return s.Leases.Sweep(ctx)
}

// Broken cleans up after a batch that failed; outcomes has the verdicts of its items. Items
// that were new, but that nobody is told of now, are removed from Redis. Of items whose reply
// was lost it cannot be known whether they were new. Only if all of them are removed was
// nothing remembered.
func (s *Set) Broken(ctx context.Context, outcomes iter.Seq2[forgotten.Untold, servers.Verdict], err error) error {
	var untold []forgotten.Untold
	unsure := 0
	for item, v := range outcomes {
		if v == servers.Unknown {
			unsure++
		}
		if v == servers.Fresh || v == servers.Unknown && s.UnackedIsNew {
			untold = append(untold, item)
		}
	}
	if errors.Is(err, servers.ErrTooFewReplicas) {
		unsure += len(untold) // a replica may have them, and never hear that they were removed
	}
	err = s.EngineError(ctx, err)
	if undo := s.undo(ctx, untold); undo != nil {
		unsure += len(untold)
		s.Log.Debug("items of a batch that failed are still in redis", "filter", s.Spec.Name, "items", len(untold), "err", undo)
	}
	return shared.InDoubt(err, unsure, "remembered")
}

// undo removes from Redis the items of a batch that no caller was told of. Those that are left wait.
func (s *Set) undo(ctx context.Context, items []forgotten.Untold) error {
	if len(items) == 0 {
		return nil
	}
	left, err := s.items.Undo(ctx, s.Servers.Batches, items)
	s.undos.Add(left)
	return err
}

// undoPending uses c to remove what earlier batches have left.
func (s *Set) undoPending(ctx context.Context, c redis.UniversalClient) error {
	err := s.undos.Empty(func(items []forgotten.Untold) ([]forgotten.Untold, error) { return s.items.Undo(ctx, c, items) })
	if errors.Is(err, ErrTooLate) {
		return nil // they expire
	}
	return err
}

// ErrTooLate is returned by Items.Undo for items that are about to expire.
var ErrTooLate = errors.New("an item is about to expire, and may then be another caller's")

// Question is the query for one item.
type Question struct {
	redis.BoolCmd
	Index int // in the batch
}

// NoRetry keeps go-redis from resending a pipeline whose replies were lost: the second time,
// every item would look seen.
func (*Question) NoRetry() bool { return true }

// Dialogue is what a batch asks and hears.
type Dialogue struct {
	Keys    []bloom.Hash
	Marks   forgotten.Marks // before the first question
	Heard   forgotten.Marks // after the last one
	Answers []Answer
}

// Answer is what a query has told of one item. Questions are a few hundred bytes each, and are kept
// no longer than their piece of a batch.
type Answer struct {
	Index   int // in the batch
	Verdict servers.Verdict
}

// Open begins a dialogue. It must be called before the mirror is read.
func (s *Set) Open(keys []bloom.Hash) Dialogue {
	return Dialogue{Keys: keys, Marks: s.Removals.Marks(), Heard: forgotten.NoMarks()}
}

// Hear notes the answer to a question, to which the reply 1 means yes, and 0 no.
func (d *Dialogue) Hear(q *Question, yes, no servers.Verdict) {
	v := no
	if err := q.Err(); err != nil {
		v = servers.VerdictOf(err)
	} else if q.Val() {
		v = yes
	}
	d.Answers = append(d.Answers, Answer{q.Index, v})
}

// NotAsked notes that nobody was asked about items.
func (d *Dialogue) NotAsked(index []int) {
	for _, i := range index {
		d.Answers = append(d.Answers, Answer{i, servers.Undone})
	}
}

// Untold returns the item of an answer, for the case that no caller is told of it.
func (d *Dialogue) Untold(a Answer) forgotten.Untold {
	key := d.Keys[a.Index]
	return forgotten.Untold{Key: key, Mark: d.Marks[forgotten.GroupOf(key)]}
}

// Ask queries the keys that the mirror does not have, which isNew marks, and those that were
// forgotten since the mirror was read. send must read the witnesses of the groups of the wanted
// keys, of which it gets the places in the batch, and of those in listen. All of isNew is false afterwards.
func (s *Set) Ask(ctx context.Context, d *Dialogue, isNew []bool, send func(wanted []int, listen uint64) error) error {
	var listen uint64
	var known []bloom.Hash
	var at, wanted []int // positions of known in the batch, and of the others
	for i, is := range isNew {
		if is {
			wanted = append(wanted, i)
		} else {
			known, at = append(known, d.Keys[i]), append(at, i)
			listen |= 1 << forgotten.GroupOf(d.Keys[i])
		}
	}
	if err := send(wanted, listen); err != nil {
		return err
	}
	clear(isNew)
	if err := s.Removals.FollowFrom(ctx, s.Servers.Batches, &d.Marks, &d.Heard); err != nil {
		return err
	}
	gone := make([]bool, len(known))
	s.Removals.Forgotten(&d.Marks, known, gone)
	var again []int
	for k, is := range gone {
		if is {
			again = append(again, at[k])
		}
	}
	if len(again) == 0 {
		return nil
	}
	return send(again, 0)
}

// Create implements base.Filter.
func (s *Set) Create(ctx context.Context) error {
	if _, err := s.Removals.CreateWitnesses(ctx); err != nil {
		return err
	}
	_, err := s.Removals.Whole(ctx)
	return err
}

// Load implements base.Filter: the items themselves are queried only when batches contain
// them.
func (s *Set) Load(ctx context.Context) (lost bool, err error) {
	whole, err := s.Removals.Whole(ctx)
	return !whole, err
}

// Stop implements base.Filter: it removes items that nobody was told of, and forgotten items
// that exist again. Items that were set in a Redis that had lost data are among the former, and
// another daemon may know that they were seen.
func (s *Set) Stop(ctx context.Context, _ bool) error {
	dropped := func(ctx context.Context) (bool, error) { return s.Registry.Dropped(ctx, s.Entry) }
	if err := s.Removals.Restore(ctx, dropped); err != nil {
		return err
	}
	if err := s.undoPending(ctx, s.Servers.Admin); !errors.Is(err, forgotten.ErrBusy) {
		return err
	}
	return nil // the next batch removes them, when the witnesses have their former counts again
}

// Resync implements base.Filter: it puts back what the mirror has. The witnesses are created
// first and checked again at the end, so that a Redis that is flushed meanwhile does not pass
// for resynced.
func (s *Set) Resync(ctx context.Context) (gone bool, err error) {
	if s.Enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	if gone, err = s.Removals.CreateWitnesses(ctx); err != nil {
		return gone, err
	}
	if err := s.witnessed(ctx); err != nil { // what others forgot is not put back
		return gone, err
	}
	if err := s.items.Resend(ctx); err != nil {
		return gone, err
	}
	return gone, s.witnessed(ctx)
}

// witnessed follows what others forgot. It returns insync.ErrLost if a witness does not exist.
func (s *Set) witnessed(ctx context.Context) error {
	whole, err := s.Removals.Whole(ctx)
	if err == nil && !whole {
		err = insync.ErrLost
	}
	return err
}
