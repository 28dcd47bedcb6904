// Package exact has filters of the kind exact in Redis: items as members of sets of integers,
// which are split as they grow; a mirror of those that were asked for last, bounded in bytes; and
// how an item is forgotten.
package exact

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/filter"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/leases"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// Set is a filter of the kind exact. `SADD set item` replies 1 to one caller of all daemons.
//
// An item that the mirror has is a duplicate unless it was forgotten since, which the witness
// of its group tells: of a batch of such items only the witnesses are asked. The mirror learns
// after the reply, never before.
type Set struct {
	filter.Common
	prefix string // of the keys
	tree   tree
	mirror *mirror
	part   *budget.Part // of the memory of mirrors
	log    *forgotten.Log
	leases leases.Set
	full   atomic.Int64 // members from which on a set is split

	counting sync.RWMutex // write-held while sets are counted
	items    items

	undos forgotten.Queue
}

var (
	_ engine.Growing   = (*Set)(nil)
	_ engine.Forgetful = (*Set)(nil)
	_ filter.Counted   = (*Set)(nil)
	_ filter.Forgetful = (*Set)(nil)
	_ filter.Filter    = (*Set)(nil)
)

// New is the filter of an entry, without anything in it.
func New(l *filter.Link, e registry.Entry) *Set {
	s := &Set{
		Common: filter.Common{Link: l, Entry: e},
		prefix: registry.ItemPrefix(e),
		mirror: newMirror(0),
	}
	s.part = l.Mirrors.Exact(s.mirror.Resize)
	s.full.Store(encodedMost * 3 / 4)
	s.log = forgotten.New(l.Servers, s.prefix, places{s})
	s.leases = leases.Set{Leases: leases.New(l.Servers, s.log, places{s}, false), Common: &s.Common, Begin: s.begin}
	return s
}

// places are the items for the log.
type places struct{ *Set }

func (p places) Place(key bloom.Hash) forgotten.Place {
	n := p.tree.leaf(key)
	return forgotten.Place{Key: string(n.appendKey(nil, p.prefix)), Member: member(key), Level: n.level}
}

func (p places) Moved(key bloom.Hash, from forgotten.Place) error {
	if from.Level >= deepest {
		return registry.Foreign(from.Key)
	}
	p.tree.note(nodeOf(key, from.Level))
	return nil
}

func (p places) Drop(keys []bloom.Hash) { p.mirror.Drop(keys) }
func (p places) DropGroup(g int)        { p.mirror.DropGroup(g) }

// Witness is the key that is there as long as Redis has lost nothing of group g.
func (s *Set) Witness(g int) string { return s.log.Witness(g) }

// Add implements engine.Set.
//
// A caller who hangs up does not stop it: a batch that was sent is to be known.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	end, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	ctx = context.WithoutCancel(ctx)
	if err := s.undoPending(ctx, s.Servers.Batches); err != nil {
		return 0, s.Trouble(ctx, err)
	}
	d := dialogue{op: opAdd, keys: keys}
	aged, err := s.talk(ctx, &d, isNew)
	if err != nil {
		return 0, s.broken(ctx, &d, err)
	}
	seen, err := s.resolve(ctx, &d, true)
	if err != nil {
		return 0, s.broken(ctx, &d, err)
	}
	var accepted []bloom.Hash
	for i := range d.questions {
		q := &d.questions[i]
		if isNew[q.index] = q.Val() != q.ended; isNew[q.index] {
			accepted = append(accepted, keys[q.index])
		}
	}
	s.learn(&d, accepted, true)
	s.learn(&d, append(seen, aged...), false)
	return len(accepted), nil
}

// Has implements engine.Set.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	d := dialogue{op: opHas, keys: keys}
	aged, err := s.talk(ctx, &d, isNew)
	if err != nil {
		return s.Trouble(ctx, err)
	}
	seen, err := s.resolve(ctx, &d, false)
	if err != nil {
		return s.Trouble(ctx, err)
	}
	for i := range d.questions {
		q := &d.questions[i]
		isNew[q.index] = q.Val() == q.ended
	}
	s.learn(&d, append(seen, aged...), false)
	return nil
}

// begin lets a batch begin, unless servers are not in sync. What is learned of the sets is of
// those servers until end.
func (s *Set) begin() (end func(), err error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	s.State.Flight.RLock()
	end = func() {
		s.State.Flight.RUnlock()
		s.Use.RUnlock()
	}
	if _, err := s.State.Check(); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// talk asks for the keys that the mirror does not have, and for those that were forgotten since
// it was asked. isNew is false for all others; aged are those that the mirror is about to lose.
func (s *Set) talk(ctx context.Context, d *dialogue, isNew []bool) (aged []bloom.Hash, err error) {
	d.marks, d.heard = s.log.Marks(), forgotten.NoMarks()
	old := make([]bool, len(d.keys))
	s.mirror.Has(d.keys, isNew, old)
	var listen uint64
	var known []bloom.Hash
	var at []int // of known, in the batch
	for i, is := range isNew {
		if !is {
			known, at = append(known, d.keys[i]), append(at, i)
			listen |= 1 << forgotten.GroupOf(d.keys[i])
			if old[i] {
				aged = append(aged, d.keys[i])
			}
		}
	}
	if err := s.ask(ctx, d, isNew, listen); err != nil {
		return nil, err
	}
	clear(isNew)
	if err := s.log.FollowFrom(ctx, s.Servers.Batches, &d.marks, &d.heard); err != nil {
		return nil, err
	}
	gone, again := make([]bool, len(known)), make([]bool, len(d.keys))
	s.log.Forgotten(&d.marks, known, gone)
	some := false
	for k, is := range gone {
		again[at[k]] = is
		some = some || is
	}
	if some {
		err = s.ask(ctx, d, again, 0)
	}
	return aged, err
}

// learn puts keys into the mirror that were in Redis when d was asked.
func (s *Set) learn(d *dialogue, keys []bloom.Hash, accepted bool) {
	s.log.Learn(&d.marks, keys, func(keys []bloom.Hash) {
		// Whatever the system says to a larger mirror, Redis has these items.
		if err := s.mirror.Put(keys, accepted); err != nil {
			s.Log.Warn("no memory to mirror items; they are not put back should redis lose them", "filter", s.Spec.Name, "err", err)
		}
	})
}

// Forget implements engine.Forgetful.
func (s *Set) Forget(ctx context.Context, keys []bloom.Hash) (int, error) {
	end, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	ctx = context.WithoutCancel(ctx)
	if err := s.undoPending(ctx, s.Servers.Batches); err != nil {
		return 0, s.Trouble(ctx, err)
	}
	r, err := s.remove(ctx, keys)
	if err != nil {
		return 0, filter.ForgetInDoubt(s.Trouble(ctx, err), len(r.Removed)+len(r.Unsure))
	}
	return len(r.Removed), nil
}

// remove takes items out of Redis, and out of the count.
func (s *Set) remove(ctx context.Context, keys []bloom.Hash) (forgotten.Removal, error) {
	s.counting.RLock()
	defer s.counting.RUnlock()
	r, err := s.log.Remove(ctx, s.Servers.Batches, keys, nil)
	for _, key := range r.Removed {
		s.items.add(rootOf(key), -1)
	}
	return r, err
}

// broken sorts out a batch that failed. Items that were new, and of which nobody is told
// now, are taken out of Redis; of those whose reply was lost it cannot be known whether
// they were. Only where all of them are out was nothing remembered.
func (s *Set) broken(ctx context.Context, d *dialogue, err error) error {
	var untold []forgotten.Untold
	unsure := 0
	for i := range d.questions {
		q := &d.questions[i]
		v := q.verdict()
		if q.ended {
			v = servers.Fresh
		}
		if q.doubtful {
			v = servers.Unknown
		}
		if v == servers.Unknown {
			unsure++
		}
		if v == servers.Fresh || v == servers.Unknown && s.DoubtIsNew {
			key := d.keys[q.index]
			untold = append(untold, forgotten.Untold{Key: key, Mark: d.marks[forgotten.GroupOf(key)]})
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

// Memory implements engine.Growing: of the mirror.
func (s *Set) Memory() uint64 { return s.mirror.Memory() }

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.Entry.Seed }

// Stats implements engine.Set.
func (s *Set) Stats() engine.Stats {
	return engine.Stats{Items: s.items.sum(), Bytes: s.mirror.Memory(), Generation: s.Gen}
}

// Free implements filter.Filter.
func (s *Set) Free() error {
	s.part.Leave()
	return s.mirror.Close()
}
