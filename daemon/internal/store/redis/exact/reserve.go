package exact

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/itemset"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

var (
	_ engine.Reserving = (*Set)(nil)
	_ base.Leasing     = (*Set)(nil)
)

// resolve finds out which of the items that a batch has found in their sets are seen: not those whose
// lease has ended. If nothing was ever reserved, all of them are seen, and
// Redis is not asked.
func (s *Set) resolve(ctx context.Context, d *dialogue, add bool) (seen []bloom.Hash, err error) {
	var open []bloom.Hash
	at := map[bloom.Hash][]*itemset.Answer{}
	for i := range d.Answers {
		a := &d.Answers[i]
		if key := d.Keys[a.Index]; a.Verdict == servers.Fresh {
			continue
		} else if s.Removals.Reserving(forgotten.GroupOf(key)) {
			open, at[key] = append(open, key), append(at[key], a)
		} else {
			seen = append(seen, key)
		}
	}
	if len(open) == 0 {
		return seen, nil
	}
	r, err := s.Leases.Resolve(ctx, open, add)
	for _, key := range r.New {
		at[key][0].Verdict = servers.Fresh
		at[key] = at[key][1:]
	}
	for _, key := range r.Unsure {
		for _, a := range at[key] {
			a.Verdict = servers.Unknown // it was asked about its lease, and the reply was lost
		}
	}
	return append(seen, r.Seen...), err
}

// Reserve implements engine.Reserving.
func (s *Set) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (engine.Reserved, error) {
	ctx, end, err := s.BeginChange(ctx)
	if err != nil {
		return engine.Reserved{}, err
	}
	defer end()
	full := map[node]bool{}
	got, inDoubt, err := s.Leases.Reserve(ctx, id, keys, lease, fresh, s.full.Load(), func(key bloom.Hash, level uint8) {
		if n := s.tree.nodeOf(key, level); level < deepest {
			full[n] = true
		}
	})
	s.divide(ctx, full)
	if err != nil {
		return engine.Reserved{}, shared.InDoubt(s.EngineError(ctx, err), inDoubt, "reserved, committed or released")
	}
	return got, nil
}

// Commit implements engine.Reserving.
func (s *Set) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, _ time.Duration, lost []bool) (engine.Settled, error) {
	end, err := s.Begin()
	if err != nil {
		return engine.Settled{}, err
	}
	defer end()
	d := dialogue{Dialogue: s.Open(keys)}
	got, err := s.Leases.Commit(context.WithoutCancel(ctx), id, keys, 0, lost)
	if err == nil {
		s.learn(&d, got.Now, true)
	}
	return s.Settled(ctx, got, err)
}
