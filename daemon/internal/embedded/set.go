package embedded

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// set is a filter of the kind bloom.
type set struct {
	*kept
	bits        *bloom.Map
	writtenBack atomic.Pointer[time.Time]
	merging     merging
}

var _ engine.BitMap = (*set)(nil)

func bloomKind() kind {
	return kind{
		file: bitmapName, width: 1,
		create: func(spec engine.Spec, b engine.Birth) (memory, error) {
			h, err := engine.BitMapHeader(spec, b)
			if err != nil {
				return nil, err
			}
			return newBitmap(h)
		},
		read: func(path string) (memory, uint64, error) {
			bits, from, err := readBitmap(path)
			if err != nil {
				return nil, 0, err
			}
			return &bitmap{Map: bits}, from, nil
		},
		serve: func(k *kept, m memory) engine.Set {
			bits := m.(*bitmap).Map
			bits.OnAdd(k.journal.Append)
			s := &set{kept: k, bits: bits}
			k.end = s.endMerging
			return s
		},
	}
}

// bitmap is a bit-map as memory.
type bitmap struct {
	*bloom.Map
	fresh []bool // for apply
}

func newBitmap(h bloom.Header) (*bitmap, error) {
	bits, err := bloom.New(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	return &bitmap{Map: bits}, nil
}

func (b *bitmap) bytes() uint64 { return b.Header().Bytes() }
func (b *bitmap) free() error   { return b.Close() }

func (b *bitmap) stat() stat {
	h := b.Header()
	return stat{generation: h.Generation, items: b.Fill().Items, blocks: h.Stripes()}
}

func (b *bitmap) apply(keys []bloom.Hash) error {
	if len(b.fresh) < len(keys) {
		b.fresh = make([]bool, len(keys))
	}
	b.Add(keys, b.fresh)
	return nil
}

func (b *bitmap) write(fs durable.FS, path string, from uint64) error {
	return writeBitmap(fs, path, b.Map, from, nil)
}

// Add implements engine.Set.
func (s *set) Add(_ context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	return s.add(len(keys), func() (int, error) { return s.bits.Add(keys, fresh), nil })
}

// Has implements engine.Set.
func (s *set) Has(_ context.Context, keys []bloom.Hash, fresh []bool) error {
	return s.has(func() { s.bits.Has(keys, fresh) })
}

// Seed implements engine.Set.
func (s *set) Seed() uint64 { return s.bits.Header().Seed }

// Stats implements engine.Set.
func (s *set) Stats() engine.Stats {
	h, fill := s.bits.Header(), s.bits.Fill()
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}

// WrittenBack implements engine.BitMap.
func (s *set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

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
