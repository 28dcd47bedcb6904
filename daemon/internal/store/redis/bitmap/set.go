// Package bitmap has filters of the kind bloom in Redis: batches of test-and-sets, the stripes of
// the bit-map and their mirror, and the items that were set but that no caller was told of.
package bitmap

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Set is a filter of the kind bloom: its bits are in Redis, and each layer has a mirror of those
// that this daemon knows to be set there, or of the items that were asked for last. A key that
// the mirror has is a duplicate, and is not sent; of another key only the bits are sent that the
// mirror lacks. The mirror learns after the reply, never before, so it has nothing that Redis has
// not acknowledged.
type Set struct {
	base.Common
	growing sync.Mutex               // held while a layer is added
	all     atomic.Pointer[[]*layer] // the last one decides what is new

	unacked    unacked
	unackedKey string // of the set that all daemons share

	writtenBack  atomic.Pointer[time.Time]
	mergedClosed atomic.Bool // the archive was merged into a closed layer, and that is not committed
}

var (
	_ engine.BitMap        = (*Set)(nil)
	_ base.Counted         = (*Set)(nil)
	_ base.Unacknowledging = (*Set)(nil)
	_ base.Mirrored        = (*Set)(nil)
	_ base.Sweeping        = (*Set)(nil)
	_ base.Mirroring       = (*Set)(nil)
	_ base.Filter          = (*Set)(nil)
)

// New returns the filter of an entry, without anything in it.
func New(l *base.Link, e registry.Entry) (*Set, error) {
	first, err := newLayer(l.Mirrors, e, 0)
	if err != nil {
		return nil, err
	}
	set := &Set{Common: base.Common{Link: l, Entry: e}, unackedKey: registry.UnackedKey(e)}
	set.all.Store(&[]*layer{first})
	return set, nil
}

func (s *Set) layers() []*layer { return *s.all.Load() }

// StripeKeys returns the keys of the stripes in Redis.
func (s *Set) StripeKeys() (keys []string) {
	for _, l := range s.layers() {
		keys = append(keys, l.keys...)
	}
	return keys
}

// Free implements base.Filter.
func (s *Set) Free() error {
	var errs []error
	for _, l := range s.layers() {
		errs = append(errs, l.mirror.Close())
	}
	return errors.Join(errs...)
}

// Add implements engine.Set.
//
// A caller that hangs up does not stop it: the outcome of a batch that was sent must become
// known.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	if err := s.Enter(); err != nil {
		return 0, err
	}
	defer s.Use.RUnlock()
	s.State.Flight.RLock()
	defer s.State.Flight.RUnlock()
	if err := s.Check(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	verdicts := make([]servers.Verdict, len(keys)) // seen
	clear(isNew)
	for at := 0; at < len(keys); {
		part, err := s.growIfFull(ctx, len(keys)-at)
		if err == nil {
			err = s.decide(ctx, keys[at:at+part], verdicts[at:at+part], "set")
		}
		if err != nil {
			return 0, s.broken(ctx, keys, isNew, verdicts, nil, err)
		}
		at += part
	}
	for i, v := range verdicts {
		isNew[i] = v == servers.Fresh
	}
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

// broken sorts out a batch that failed. Items that were new, but of which no caller is told now,
// are unacknowledged; of those whose reply was lost this cannot be known. Only if there are
// neither was nothing remembered.
func (s *Set) broken(ctx context.Context, keys []bloom.Hash, isNew []bool, verdicts []servers.Verdict, claims []claim, err error) error {
	var untold, claimed []bloom.Hash
	unsure := 0
	note := func(v servers.Verdict, key bloom.Hash) {
		switch {
		case v == servers.Fresh:
			untold = append(untold, key)
		case v == servers.Unknown:
			unsure++
			if s.UnackedIsNew {
				untold = append(untold, key)
			}
		}
	}
	for i, is := range isNew {
		if is {
			untold = append(untold, keys[i])
		}
	}
	for i, v := range verdicts {
		note(v, keys[i])
	}
	for i := range claims {
		v := claims[i].verdict()
		if note(v, keys[claims[i].index]); v == servers.Undone {
			claimed = append(claimed, keys[claims[i].index])
		}
	}
	s.unacked.insert(claimed, true)
	err = s.EngineError(ctx, err)
	s.Unacknowledge(untold)
	return shared.InDoubt(err, len(untold)+unsure, "remembered")
}

// Has implements engine.Set. A resync waits for it, as for a batch: half-way, Redis lacks what the other
// daemons have not put back yet.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Use.RUnlock()
	s.State.Flight.RLock()
	defer s.State.Flight.RUnlock()
	if err := s.Check(); err != nil {
		return err
	}
	verdicts := make([]servers.Verdict, len(keys))
	if err := s.decide(ctx, keys, verdicts, "get"); err != nil {
		return s.EngineError(ctx, err)
	}
	clear(isNew)
	for i, v := range verdicts {
		isNew[i] = v == servers.Fresh
	}
	if err := s.hasUnacked(ctx, keys, isNew); err != nil {
		return s.EngineError(ctx, err)
	}
	return nil
}

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.Entry.Header.Seed }

// Header implements engine.BitMap.
func (s *Set) Header() bloom.Header {
	h := s.Entry.Header
	if h.Layers > 0 {
		h.Layers = uint32(len(s.layers()))
	}
	return h
}

// WrittenBack implements engine.BitMap.
func (s *Set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

// Stats implements engine.Set: of the mirror or of Redis, whichever has more.
func (s *Set) Stats() engine.Stats {
	h, fill := s.Header(), bloom.FillOf(s.Layers())
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}
