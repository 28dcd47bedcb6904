// Package exact has filters of the kind exact in Redis: items as members of sets of integers,
// which are split as they grow; a mirror of those that were asked for last, bounded in bytes; and
// how an item is forgotten.
package exact

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Set is a filter of the kind exact. `SADD set item` replies 1 to one caller of all daemons.
//
// An item that the mirror has is a duplicate unless it was forgotten since, which the witness of
// its group tells: for a batch of such items only the witnesses are asked. The mirror learns
// after the reply, never before.
type Set struct {
	itemset.Set
	tree   tree
	mirror *mirror
	part   *budget.Part // of the memory of mirrors
	full   atomic.Int64 // members from which on a set is split

	counting sync.RWMutex // write-held while sets are counted
	items    items
}

var (
	_ engine.Growing   = (*Set)(nil)
	_ engine.Forgetful = (*Set)(nil)
	_ base.Counted     = (*Set)(nil)
	_ base.Forgetful   = (*Set)(nil)
	_ base.Mirroring   = (*Set)(nil)
	_ base.Filter      = (*Set)(nil)
)

// New returns the filter of an entry, without anything in it.
func New(l *base.Link, e registry.Entry) *Set {
	s := &Set{mirror: newMirror(0)}
	s.Init(l, e, places{s}, false)
	s.part = l.Mirrors.Exact(s.mirror.Resize)
	s.full.Store(maxEncoded * 3 / 4)
	return s
}

// places implement itemset.Items.
type places struct{ *Set }

func (p places) Place(key bloom.Hash) forgotten.Place {
	n := p.tree.leaf(key)
	return forgotten.Place{Key: string(n.appendKey(nil, p.Prefix)), Member: p.tree.member(key), Level: n.level}
}

func (p places) Moved(key bloom.Hash, from forgotten.Place) error {
	if from.Level >= deepest {
		return shared.Damaged(registry.Foreign(from.Key))
	}
	p.tree.note(p.tree.nodeOf(key, from.Level))
	return nil
}

func (p places) Drop(keys []bloom.Hash) { p.mirror.Drop(keys) }
func (p places) DropGroup(g int)        { p.mirror.DropGroup(g) }

// Add implements engine.Set.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	ctx, end, err := s.BeginChange(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	d := dialogue{op: opAdd}
	aged, err := s.talk(ctx, &d, keys, isNew)
	if err != nil {
		return 0, s.broken(ctx, &d, err)
	}
	seen, err := s.resolve(ctx, &d, true)
	if err != nil {
		return 0, s.broken(ctx, &d, err)
	}
	var accepted []bloom.Hash
	for _, a := range d.Answers {
		if isNew[a.Index] = a.Verdict == servers.Fresh; isNew[a.Index] {
			accepted = append(accepted, keys[a.Index])
		}
	}
	s.learn(&d, accepted, true)
	s.learn(&d, append(seen, aged...), false)
	return len(accepted), nil
}

// Has implements engine.Set.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	end, err := s.Begin()
	if err != nil {
		return err
	}
	defer end()
	d := dialogue{op: opHas}
	aged, err := s.talk(ctx, &d, keys, isNew)
	if err != nil {
		return s.EngineError(ctx, err)
	}
	seen, err := s.resolve(ctx, &d, false)
	if err != nil {
		return s.EngineError(ctx, err)
	}
	for _, a := range d.Answers {
		isNew[a.Index] = a.Verdict == servers.Fresh
	}
	s.learn(&d, append(seen, aged...), false)
	return nil
}

// talk asks for the keys that the mirror does not have. isNew is false afterwards; aged are those
// that the mirror is about to lose.
func (s *Set) talk(ctx context.Context, d *dialogue, keys []bloom.Hash, isNew []bool) (aged []bloom.Hash, err error) {
	d.Dialogue = s.Open(keys)
	old := make([]bool, len(keys))
	s.mirror.Has(keys, isNew, old)
	for i, is := range isNew {
		if !is && old[i] {
			aged = append(aged, keys[i])
		}
	}
	return aged, s.Ask(ctx, &d.Dialogue, isNew, func(wanted []int, listen uint64) error { return s.sendQuestions(ctx, d, wanted, listen) })
}

// learn puts keys that were in Redis when d was asked into the mirror.
func (s *Set) learn(d *dialogue, keys []bloom.Hash, accepted bool) {
	s.Removals.Unforgotten(&d.Marks, keys, func(keys []bloom.Hash) {
		// Even if the system refuses the memory for a larger mirror, Redis has these items.
		if err := s.mirror.Put(keys, accepted); err != nil {
			s.Log.Warn("no memory to mirror items; if redis loses them, they are not restored from here", "filter", s.Spec.Name, "err", err)
		}
	})
}

// broken sorts out a batch that failed.
func (s *Set) broken(ctx context.Context, d *dialogue, err error) error {
	return s.Broken(ctx, func(yield func(forgotten.Untold, servers.Verdict) bool) {
		for _, a := range d.Answers {
			if !yield(d.Untold(a), a.Verdict) {
				return
			}
		}
	}, err)
}

// Memory implements engine.Growing: of the mirror.
func (s *Set) Memory() uint64 { return s.mirror.Memory() }

// MemoryFor implements engine.Weighed: the mirror has a bound of its own.
func (s *Set) MemoryFor(engine.More) uint64 { return s.Memory() }

// Mirror implements base.Mirroring.
func (s *Set) Mirror() base.Mirror {
	asked, found, evicted := s.mirror.Counts()
	return base.Mirror{Bytes: s.mirror.Memory(), Partial: true, Asked: asked, Found: found, Evicted: evicted}
}

// Stats implements engine.Set.
func (s *Set) Stats() engine.Stats {
	return engine.Stats{Items: s.items.sum(), Bytes: s.mirror.Memory(), Generation: s.Gen}
}

// Free implements base.Filter.
func (s *Set) Free() error {
	s.part.Leave()
	return s.mirror.Close()
}
