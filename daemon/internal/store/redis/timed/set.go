// Package timed has filters of the kind timing in Redis: items as keys that expire there, the
// witnesses that show whether Redis has lost some, and the mirror of what was accepted here.
package timed

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Set is a filter of the kind timing. Each item is a key in Redis that expires there, by the
// clock of that server: `SET key 1 PX ms NX` creates it, in one step, for one caller among all
// daemons.
//
// The items fall into groups, and each group's keys share a hash tag with its witness, a key
// that exists as long as Redis has lost nothing. The witness is read after the items of each
// pipeline, so that no answer from a Redis that was flushed counts; and it tells what was
// forgotten, see package forgotten.
//
// The mirror has the items that this daemon has accepted, with the time at which they were
// sent: Redis forgets none of them earlier. So they need not be sent again, and when Redis has
// lost data they are put back. The mirror knows nothing about what other daemons have accepted.
type Set struct {
	itemset.Set
	mirror *timing.Table
}

var (
	_ engine.Timed     = (*Set)(nil)
	_ engine.Forgetful = (*Set)(nil)
	_ base.Sweeping    = (*Set)(nil)
	_ base.Mirroring   = (*Set)(nil)
	_ base.Forgetful   = (*Set)(nil)
	_ base.Filter      = (*Set)(nil)
)

// New returns the filter of an entry, with nothing in its mirror.
func New(l *base.Link, e registry.Entry) *Set {
	s := &Set{mirror: timing.New(timing.SystemClock())}
	s.Init(l, e, places{s}, true)
	return s
}

// places implements itemset.Items.
type places struct{ *Set }

func (p places) Place(key bloom.Hash) forgotten.Place {
	return forgotten.Place{Key: string(p.key(nil, key))}
}

func (p places) Moved(_ bloom.Hash, from forgotten.Place) error {
	return shared.Damaged(registry.Foreign(from.Key))
}

func (p places) Drop(keys []bloom.Hash) { p.mirror.Forget(keys) }

func (p places) DropGroup(g int) {
	const share = table.Parts / forgotten.Groups
	now := p.mirror.Now()
	for part := g * share; part < (g+1)*share; part++ {
		var keys []bloom.Hash
		for _, e := range p.mirror.Part(part, now, nil) {
			keys = append(keys, e.Key)
		}
		p.mirror.Forget(keys)
	}
}

func (s *Set) key(dst []byte, key bloom.Hash) []byte {
	dst = append(dst, forgotten.Tagged(s.Prefix, forgotten.GroupOf(key))...)
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
func (s *Set) AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, isNew []bool) (int, error) {
	ctx, end, err := s.BeginChange(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	until := s.mirror.Now() + expire.Milliseconds()
	d := dialogue{expire: expire}
	if err := s.talk(ctx, &d, keys, isNew); err != nil {
		return 0, s.broken(ctx, &d, until, err)
	}
	accepted := make([]bloom.Hash, 0, len(d.Answers))
	for _, a := range d.Answers {
		if isNew[a.Index] = a.Verdict == servers.Fresh; isNew[a.Index] {
			accepted = append(accepted, keys[a.Index])
		}
	}
	s.Removals.Unforgotten(&d.Marks, accepted, func(keys []bloom.Hash) {
		s.reflect(keys, until)
	})
	return len(accepted), nil
}

// reflect mirrors what was accepted here. Even if the system refuses memory for a larger
// mirror, Redis has these items.
func (s *Set) reflect(keys []bloom.Hash, until int64) {
	if _, err := s.mirror.AddUntil(keys, until, make([]bool, len(keys))); err != nil {
		s.Log.Warn("no memory to mirror items; if redis loses them, they are not restored from here", "filter", s.Spec.Name, "err", err)
	}
}

// talk queries the keys that the mirror does not have. All of isNew is false afterwards.
func (s *Set) talk(ctx context.Context, d *dialogue, keys []bloom.Hash, isNew []bool) error {
	d.Dialogue = s.Open(keys)
	s.mirror.Has(keys, isNew)
	return s.Ask(ctx, &d.Dialogue, isNew, func(wanted []int, listen uint64) error { return s.sendQuestions(ctx, d, wanted, listen) })
}

// broken cleans up after a batch that failed, whose items may have expired at until.
func (s *Set) broken(ctx context.Context, d *dialogue, until int64, err error) error {
	return s.Broken(ctx, func(yield func(forgotten.Untold, servers.Verdict) bool) {
		for _, a := range d.Answers {
			item := d.Untold(a)
			item.Until = until
			if !yield(item, a.Verdict) {
				return
			}
		}
	}, err)
}

// Has implements engine.Set.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	end, err := s.Begin()
	if err != nil {
		return err
	}
	defer end()
	d := dialogue{}
	if err := s.talk(ctx, &d, keys, isNew); err != nil {
		return s.EngineError(ctx, err)
	}
	for _, a := range d.Answers {
		isNew[a.Index] = a.Verdict == servers.Fresh
	}
	return nil
}

// Memory implements engine.Timed: of the mirror.
func (s *Set) Memory() uint64 { return s.mirror.Memory() }

// MemoryFor implements engine.Weighed.
func (s *Set) MemoryFor(more engine.More) uint64 {
	return s.mirror.MemoryFor(more.Items, more.Reserved)
}

// Mirror implements base.Mirroring: the mirror has everything that this daemon has accepted,
// and only limits.filter_bytes and the expiry of the items bound it.
func (s *Set) Mirror() base.Mirror { return base.Mirror{Bytes: s.mirror.Memory()} }

// Stats implements engine.Set: of the mirror, because Redis cannot count the keys of one
// filter.
func (s *Set) Stats() engine.Stats {
	st := s.mirror.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: s.Gen}
}

// Sweep implements base.Sweeping.
func (s *Set) Sweep() error { return s.mirror.Sweep() }

// Free implements base.Filter.
func (s *Set) Free() error { return s.mirror.Close() }
