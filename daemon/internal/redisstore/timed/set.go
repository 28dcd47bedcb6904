// Package timed has filters of the kind timing in Redis: items as keys that expire there, the
// witnesses that tell whether Redis has lost some, and the mirror of what was accepted here.
package timed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/filter"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/leases"
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
// of each pipeline, so that no answer counts that a Redis gave which was flushed; and it tells
// what was forgotten, see package forgotten.
//
// The mirror has the items that this daemon has accepted, with the time at which they were
// sent: Redis forgets none of them earlier. So they need not travel, and when Redis has
// lost data they are put back. Of what other daemons accepted it knows nothing.
type Set struct {
	filter.Common
	prefix string // of the keys
	mirror *timing.Table
	log    *forgotten.Log
	leases leases.Set

	undos forgotten.Queue
}

var (
	_ engine.Timed     = (*Set)(nil)
	_ engine.Forgetful = (*Set)(nil)
	_ filter.Sweeping  = (*Set)(nil)
	_ filter.Forgetful = (*Set)(nil)
	_ filter.Filter    = (*Set)(nil)
)

// New is the filter of an entry, without anything in it.
func New(l *filter.Link, e registry.Entry) *Set {
	s := &Set{
		Common: filter.Common{Link: l, Entry: e},
		prefix: registry.ItemPrefix(e),
		mirror: timing.New(timing.SystemClock()),
	}
	s.log = forgotten.New(l.Servers, s.prefix, places{s})
	s.leases = leases.Set{Leases: leases.New(l.Servers, s.log, places{s}, true), Common: &s.Common, Begin: s.begin}
	return s
}

// places are the items for the log.
type places struct{ *Set }

func (p places) Place(key bloom.Hash) forgotten.Place {
	return forgotten.Place{Key: string(p.key(nil, key))}
}

func (p places) Moved(_ bloom.Hash, from forgotten.Place) error { return registry.Foreign(from.Key) }
func (p places) Drop(keys []bloom.Hash)                         { p.mirror.Forget(keys) }

func (p places) DropGroup(g int) {
	const share = timing.Parts / forgotten.Groups
	for part := g * share; part < (g+1)*share; part++ {
		var keys []bloom.Hash
		for _, e := range p.mirror.Part(part, nil) {
			keys = append(keys, e.Key)
		}
		p.mirror.Forget(keys)
	}
}

// Witness is the key that is there as long as Redis has lost nothing of group g.
func (s *Set) Witness(g int) string { return s.log.Witness(g) }

func (s *Set) key(dst []byte, key bloom.Hash) []byte {
	dst = append(dst, forgotten.Tagged(s.prefix, forgotten.GroupOf(key))...)
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
	end, err := s.begin()
	if err != nil {
		return 0, err
	}
	defer end()
	ctx = context.WithoutCancel(ctx)
	if err := s.undoPending(ctx, s.Servers.Batches); err != nil {
		return 0, s.Trouble(ctx, err)
	}
	until := s.mirror.Now() + expire.Milliseconds()
	d := dialogue{keys: keys, expire: expire}
	if err := s.talk(ctx, &d, isNew); err != nil {
		return 0, s.broken(ctx, &d, until, err)
	}
	accepted := make([]bloom.Hash, 0, len(d.questions))
	for i := range d.questions {
		q := &d.questions[i]
		if isNew[q.index] = q.Val(); q.Val() {
			accepted = append(accepted, keys[q.index])
		}
	}
	s.log.Learn(&d.marks, accepted, func(keys []bloom.Hash) {
		s.reflect(keys, until)
	})
	return len(accepted), nil
}

// reflect mirrors what was accepted here. Whatever the system says to a larger mirror, Redis has
// these items.
func (s *Set) reflect(keys []bloom.Hash, until int64) {
	if _, err := s.mirror.AddUntil(keys, until, make([]bool, len(keys))); err != nil {
		s.Log.Warn("no memory to mirror what was accepted; it is not put back should redis lose it", "filter", s.Spec.Name, "err", err)
	}
}

// begin lets a batch begin, unless servers are not in sync.
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
// it was asked. isNew is false for all others.
func (s *Set) talk(ctx context.Context, d *dialogue, isNew []bool) error {
	d.marks, d.heard = s.log.Marks(), forgotten.NoMarks()
	s.mirror.Has(d.keys, isNew)
	var listen uint64
	var known []bloom.Hash
	var at []int // of known, in the batch
	for i, is := range isNew {
		if !is {
			known, at = append(known, d.keys[i]), append(at, i)
			listen |= 1 << forgotten.GroupOf(d.keys[i])
		}
	}
	if err := s.ask(ctx, d, isNew, listen); err != nil {
		return err
	}
	clear(isNew)
	if err := s.log.FollowFrom(ctx, s.Servers.Batches, &d.marks, &d.heard); err != nil {
		return err
	}
	gone, again := make([]bool, len(known)), make([]bool, len(d.keys))
	s.log.Forgotten(&d.marks, known, gone)
	some := false
	for k, is := range gone {
		again[at[k]] = is
		some = some || is
	}
	if !some {
		return nil
	}
	return s.ask(ctx, d, again, 0)
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
	r, err := s.log.Remove(ctx, s.Servers.Batches, keys, nil)
	if err != nil {
		return 0, filter.ForgetInDoubt(s.Trouble(ctx, err), len(r.Removed)+len(r.Unsure))
	}
	return len(r.Removed), nil
}

// Distrust implements filter.Forgetful.
func (s *Set) Distrust() { s.log.Distrust() }

// broken sorts out a batch that failed. Items that were new, and of which nobody is told
// now, are taken out of Redis; of those whose reply was lost it cannot be known whether
// they were. Only where all of them are out was nothing remembered.
func (s *Set) broken(ctx context.Context, d *dialogue, until int64, err error) error {
	var untold []forgotten.Untold
	unsure := 0
	for i := range d.questions {
		v := d.questions[i].verdict()
		if v == servers.Unknown {
			unsure++
		}
		if v == servers.Fresh || v == servers.Unknown && s.DoubtIsNew {
			key := d.keys[d.questions[i].index]
			untold = append(untold, forgotten.Untold{Key: key, Mark: d.marks[forgotten.GroupOf(key)], Until: until})
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
	d := dialogue{keys: keys}
	if err := s.talk(ctx, &d, isNew); err != nil {
		return s.Trouble(ctx, err)
	}
	for i := range d.questions {
		q := &d.questions[i]
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

// Sweep implements filter.Sweeping.
func (s *Set) Sweep() error { return s.mirror.Sweep() }

// Free implements filter.Filter.
func (s *Set) Free() error { return s.mirror.Close() }
