package embedded

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// plain is a filter of a kind that can do nothing special.
type plain struct {
	*diskFilter
	items kind.Keyed
}

// Add implements engine.Set.
func (s plain) Add(_ context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	return s.change(len(keys), func() (int, error) { return s.items.Add(keys, fresh) })
}

// Has implements engine.Set.
func (s plain) Has(_ context.Context, keys []bloom.Hash, fresh []bool) error {
	return s.has(func() { s.items.Has(keys, fresh) })
}

// Seed implements engine.Set.
func (k *diskFilter) Seed() uint64 { return k.memory.Seed() }

// WorkFor implements engine.Working: for each item its key and its place in the order of a table's parts, and
// its entry in the journal.
func (k *diskFilter) WorkFor(items int) int64 { return int64(items) * (16 + 4 + 32 + 4) }

// MemoryFor implements engine.Weighed.
func (k *diskFilter) MemoryFor(more engine.More) uint64 { return k.memory.MemoryFor(more) }

// Stats implements engine.Set.
func (k *diskFilter) Stats() engine.Stats { return k.memory.Stats() }

// set is a filter whose memory is a bit-map.
type set struct {
	plain
	bits        kind.BitMap
	writtenBack atomic.Pointer[time.Time]
	merging     merging
}

var (
	_ engine.BitMap      = (*set)(nil)
	_ engine.Prefetching = (*set)(nil)
)

// serve makes the set of a filter whose journal is open, according to what its memory can do.
func serve(k *diskFilter) engine.Set {
	k.memory.Log(k.journal)
	switch m := k.memory.(type) {
	case kind.BitMap:
		s := &set{plain: plain{k, m}, bits: m}
		k.end = s.endMerging
		if grows, ok := m.(kind.Layered); ok {
			return layered{s, grows}
		}
		return s
	case kind.Expiring:
		return &timed{reserving: newReserving(k, m), entries: m}
	case kind.Reserving:
		return newReserving(k, m)
	case kind.Forgetful:
		return forgetful{plain{k, m}, m}
	case kind.Dumped:
		return dumped{plain{k, m}, m}
	case kind.Similar:
		return similar{k, m}
	}
	return plain{k, k.memory.(kind.Keyed)}
}

// Stats implements engine.Set.
func (s *set) Stats() engine.Stats {
	st := s.bits.Stats()
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}

// WrittenBack implements engine.BitMap.
func (s *set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

// Prefetcher implements engine.Prefetching. It may be called even when the filter is gone.
func (s *set) Prefetcher() bloom.Prefetcher { return s.bits.Prefetcher() }

// Header implements engine.BitMap.
func (s *set) Header() bloom.Header { return s.bits.Header() }

// Stripe implements engine.BitMap.
func (s *set) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.use.RUnlock()
	return s.bits.Stripe(i, buf), nil
}

// layered is a filter whose bit-map grows.
type layered struct {
	*set
	bits kind.Layered
}

var _ engine.Layered = layered{}

// Memory implements engine.Growing.
func (s layered) Memory() uint64 { return s.bits.Memory() }

// Add implements engine.Set. The journal has an entry for each layer too.
func (s layered) Add(_ context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	return s.change(len(keys)+bloom.MaxLayers, func() (int, error) { return s.bits.Add(keys, fresh) })
}

// MergeStripe implements engine.BitMap.
func (s layered) MergeStripe(ctx context.Context, i int, data []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	err := s.journal.Reserve(bloom.MaxLayers)
	s.use.RUnlock()
	if err != nil {
		return translate(err)
	}
	defer s.journal.Release(bloom.MaxLayers)
	return s.set.MergeStripe(ctx, i, data)
}

// Outgrown implements engine.Layered.
func (s layered) Outgrown() bool { return s.bits.Outgrown() }

// Layers implements engine.Layered.
func (s layered) Layers() []bloom.Layer { return s.bits.Layers() }

// forgetful is a filter that grows, and that can forget single items.
type forgetful struct {
	plain
	keys kind.Forgetful
}

var (
	_ engine.Forgetful = forgetful{}
	_ engine.Growing   = forgetful{}
	_ engine.Listed    = forgetful{}
)

// Forget implements engine.Forgetful.
func (s forgetful) Forget(_ context.Context, keys []bloom.Hash) (int, error) {
	return s.change(len(keys), func() (int, error) { return s.keys.Forget(keys), nil })
}

// Digests implements engine.Listed.
func (s forgetful) Digests(i int, dst []engine.Digest) (all []engine.Digest, err error) {
	err = s.has(func() { all = s.keys.Digests(i, dst) })
	return all, err
}

// Memory implements engine.Growing.
func (s forgetful) Memory() uint64 { return s.keys.Bytes() }

// timed is a filter whose items expire.
type timed struct {
	*reserving
	entries kind.Expiring
}

var _ engine.Timed = (*timed)(nil)

// Add implements engine.Set.
func (s *timed) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	if s.spec.Expire() == 0 {
		return 0, s.noExpire()
	}
	return s.AddFor(ctx, keys, s.spec.Expire(), fresh)
}

func (s *timed) noExpire() error {
	return fmt.Errorf("filter %s: neither filter nor call says when items expire", s.spec.Name)
}

// Commit implements engine.Reserving.
func (s *timed) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	if expire = cmp.Or(expire, s.spec.Expire()); expire == 0 {
		return engine.Settled{}, s.noExpire()
	}
	return s.reserving.Commit(ctx, id, keys, expire, lost)
}

// AddFor implements engine.Timed.
func (s *timed) AddFor(_ context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	return s.change(len(keys), func() (int, error) { return s.entries.AddFor(keys, expire, fresh) })
}

// dumped is a filter in the layout of RedisBloom.
type dumped struct {
	plain
	chain kind.Dumped
}

var _ engine.Dumped = dumped{}

// Hash implements engine.Hashing.
func (s dumped) Hash(item []byte) bloom.Hash { return s.chain.Hash(item) }

// Memory implements engine.Growing.
func (s dumped) Memory() uint64 { return s.chain.Memory() }

// Layers implements engine.Dumped.
func (s dumped) Layers() engine.ScalingLayers { return s.chain.Layers() }

// Chunk implements engine.Dumped.
func (s dumped) Chunk(iterator int64) (next int64, data []byte, ok bool) {
	if s.enter() != nil {
		return 0, nil, false
	}
	defer s.use.RUnlock()
	return s.chain.Chunk(iterator)
}
