// Package bitmap has filters of the kind bloom in Redis: batches of test-and-sets, the stripes
// of the bit-map and the mirror of them, and the items that were set and no caller was told of.
package bitmap

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/filter"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// Set is a filter of the kind bloom: its bits are in Redis, and bits is a mirror of those
// that this daemon knows to be set there. A key that the mirror has is a duplicate, and
// does not travel; of another key only the bits travel that the mirror lacks. The mirror
// learns after the reply, never before: so it has nothing that Redis has not acknowledged.
type Set struct {
	filter.Common
	bits      *bloom.Map
	head      []byte
	headInt   int64
	keys      []string // of the stripes
	boxedKeys []any    // the same, as go-redis takes them

	unacked    unacked
	unackedKey string // of the set that all daemons share

	counts      counts
	writtenBack atomic.Pointer[time.Time]
}

var (
	_ engine.BitMap          = (*Set)(nil)
	_ filter.Counted         = (*Set)(nil)
	_ filter.Unacknowledging = (*Set)(nil)
	_ filter.Filter          = (*Set)(nil)
)

// New is the filter of an entry, without anything in it.
func New(l *filter.Link, e registry.Entry) (*Set, error) {
	bits, err := bloom.New(e.Header)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	set := &Set{
		Common: filter.Common{Link: l, Entry: e}, bits: bits, head: head(e.Header), headInt: headNumber(e.Header),
		unackedKey: registry.UnackedKey(e),
	}
	for i := range e.Header.Stripes() {
		key := registry.StripeKey(e, i)
		set.keys = append(set.keys, key)
		set.boxedKeys = append(set.boxedKeys, key)
	}
	return set, nil
}

// StripeKeys are the keys of the stripes in Redis.
func (s *Set) StripeKeys() []string { return s.keys }

// Free implements filter.Filter.
func (s *Set) Free() error { return s.bits.Close() }

// Add implements engine.Set.
//
// A caller who hangs up does not stop it: a batch that was sent is to be known.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	if err := s.Enter(); err != nil {
		return 0, err
	}
	defer s.Use.RUnlock()
	s.State.Flight.RLock()
	defer s.State.Flight.RUnlock()
	if _, err := s.State.Check(); err != nil {
		return 0, err
	}
	missing := make([]uint8, len(keys))
	s.bits.Missing(keys, missing)
	ctx = context.WithoutCancel(ctx)
	questions, err := s.ask(ctx, keys, missing, "set")
	for i := range questions {
		q := &questions[i]
		if err == nil && (q.Err() != nil || len(q.Val()) < 2 || q.Val()[0] != s.headInt) {
			err = insync.ErrLost
			if q.Err() != nil {
				err = q.Err()
			}
		}
	}
	clear(isNew)
	if err != nil {
		return 0, s.broken(ctx, keys, isNew, questions, nil, err)
	}
	asked := make([]bloom.Hash, len(questions))
	for i := range questions {
		q := &questions[i]
		asked[i] = keys[q.index]
		isNew[q.index] = q.verdict(s.headInt) == servers.Fresh
	}
	s.bits.Add(asked, make([]bool, len(asked)))
	if claims, err := s.takeUnacked(ctx, keys, isNew); err != nil {
		return 0, s.broken(ctx, keys, isNew, nil, claims, err)
	}
	n := 0
	for _, is := range isNew {
		if is {
			n++
		}
	}
	return n, nil
}

// broken sorts out a batch that failed. Items that were new, and of which nobody is told
// now, are unacknowledged; of those whose reply was lost this cannot be known. Only where
// there are neither was nothing remembered.
func (s *Set) broken(ctx context.Context, keys []bloom.Hash, isNew []bool, questions []question, claims []claim, err error) error {
	var untold, shared []bloom.Hash
	unsure := 0
	note := func(v servers.Verdict, key bloom.Hash) {
		switch {
		case v == servers.Fresh:
			untold = append(untold, key)
		case v == servers.Unknown:
			unsure++
			if s.DoubtIsNew {
				untold = append(untold, key)
			}
		}
	}
	for i, is := range isNew {
		if is {
			untold = append(untold, keys[i])
		}
	}
	for i := range questions {
		note(questions[i].verdict(s.headInt), keys[questions[i].index])
	}
	for i := range claims {
		v := claims[i].verdict()
		if note(v, keys[claims[i].index]); v == servers.Undone {
			shared = append(shared, keys[claims[i].index])
		}
	}
	s.unacked.put(shared, true)
	err = s.Trouble(ctx, err)
	s.Unacknowledge(untold)
	return filter.InDoubt(err, len(untold)+unsure)
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
	missing := make([]uint8, len(keys))
	s.bits.Missing(keys, missing)
	questions, err := s.ask(ctx, keys, missing, "get")
	if err != nil {
		return s.Trouble(ctx, err)
	}
	clear(isNew)
	for i := range questions {
		q := &questions[i]
		v := q.verdict(s.headInt)
		if v == servers.Undone {
			return s.Trouble(ctx, insync.ErrLost)
		}
		isNew[q.index] = v == servers.Fresh
	}
	if err := s.hasUnacked(ctx, keys, isNew); err != nil {
		return s.Trouble(ctx, err)
	}
	return nil
}

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.bits.Header().Seed }

// Header implements engine.BitMap.
func (s *Set) Header() bloom.Header { return s.bits.Header() }

// WrittenBack implements engine.BitMap.
func (s *Set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

// Stats implements engine.Set: of the mirror or of Redis, whichever has more.
func (s *Set) Stats() engine.Stats {
	h, fill := s.bits.Header(), s.bits.Fill()
	if shared := h.Fill(s.counts.sum()); shared.Ratio > fill.Ratio {
		fill = shared
	}
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}
