package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// set is a filter of the kind bloom: its bits are in Redis, and bits is a mirror of those
// that this daemon knows to be set there. A key that the mirror has is a duplicate, and
// does not travel; of another key only the bits travel that the mirror lacks. The mirror
// learns after the reply, never before: so it has nothing that Redis has not acknowledged.
type set struct {
	kept
	bits      *bloom.Map
	head      []byte
	headInt   int64
	keys      []string // of the stripes
	boxedKeys []any    // the same, as go-redis takes them

	counted     atomic.Uint64 // bits set in Redis, when last asked
	writtenBack atomic.Pointer[time.Time]
}

var (
	_ engine.BitMap = (*set)(nil)
	_ counted       = (*set)(nil)
)

func (s *Store) newSet(e entry) (*set, error) {
	bits, err := bloom.New(e.header)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	set := &set{kept: kept{store: s, entry: e}, bits: bits, head: head(e.header), headInt: headNumber(e.header)}
	for i := range e.header.Stripes() {
		key := stripeKey(e.spec, i)
		set.keys = append(set.keys, key)
		set.boxedKeys = append(set.boxedKeys, key)
	}
	return set, nil
}

func (s *set) free() error { return s.bits.Close() }

// Add implements engine.Set.
//
// A caller who hangs up does not stop it: a batch that was sent is to be known.
func (s *set) Add(ctx context.Context, keys []bloom.Hash, isNew []bool) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.use.RUnlock()
	s.store.flight.RLock()
	defer s.store.flight.RUnlock()
	if _, err := s.store.trust.check(); err != nil {
		return 0, err
	}
	missing := make([]uint8, len(keys))
	s.bits.Missing(keys, missing)
	questions, err := s.ask(context.WithoutCancel(ctx), keys, missing, "set")
	for i := range questions {
		if q := &questions[i]; err == nil && (q.Err() != nil || len(q.Val()) < 2 || q.Val()[0] != s.headInt) {
			err = errLost
			if q.Err() != nil {
				err = q.Err()
			}
		}
	}
	if err != nil {
		return 0, s.broken(keys, questions, err)
	}
	n := 0
	clear(isNew)
	asked := make([]bloom.Hash, len(questions))
	for i := range questions {
		q := &questions[i]
		asked[i] = keys[q.index]
		isNew[q.index] = q.verdict(s.headInt) == fresh
	}
	s.bits.Add(asked, make([]bool, len(asked)))
	for i, key := range keys {
		if s.doubt.take(key) {
			isNew[i] = true
		}
		if isNew[i] {
			n++
		}
	}
	return n, nil
}

// broken sorts out a batch that failed: which of its items are new and nobody was told,
// and of which this cannot be known.
func (s *set) broken(keys []bloom.Hash, questions []question, err error) error {
	var owed []bloom.Hash
	unsure := 0
	for i := range questions {
		switch questions[i].verdict(s.headInt) {
		case fresh:
			owed = append(owed, keys[questions[i].index])
		case unknown:
			unsure++
			if s.store.opt.DoubtIsNew {
				owed = append(owed, keys[questions[i].index])
			}
		}
	}
	err = s.trouble(err)
	s.owe(owed)
	return inDoubt(err, unsure)
}

// Has implements engine.Set.
func (s *set) Has(ctx context.Context, keys []bloom.Hash, isNew []bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.use.RUnlock()
	if _, err := s.store.trust.check(); err != nil {
		return err
	}
	missing := make([]uint8, len(keys))
	s.bits.Missing(keys, missing)
	questions, err := s.ask(ctx, keys, missing, "get")
	if err != nil {
		return s.trouble(err)
	}
	clear(isNew)
	for i := range questions {
		q := &questions[i]
		v := q.verdict(s.headInt)
		if v == undone {
			return s.trouble(errLost)
		}
		isNew[q.index] = v == fresh
	}
	for i, key := range keys {
		isNew[i] = isNew[i] || s.doubt.has(key)
	}
	return nil
}

// Seed implements engine.Set.
func (s *set) Seed() uint64 { return s.bits.Header().Seed }

// Header implements engine.BitMap.
func (s *set) Header() bloom.Header { return s.bits.Header() }

// WrittenBack implements engine.BitMap.
func (s *set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

// Stats implements engine.Set: of the mirror or of Redis, whichever has more.
func (s *set) Stats() engine.Stats {
	h, fill := s.bits.Header(), s.bits.Fill()
	if shared := h.Fill(s.counted.Load()); shared.Ratio > fill.Ratio {
		fill = shared
	}
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}
