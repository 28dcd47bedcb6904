// Package bloom is the kind bloom: items are bits of a bit-map, of fixed or growing size, which
// takes a few new items for seen. The bit-map itself is in the package bloom outside the kinds;
// this package makes it from a spec, and has its file.
package bloom

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind bloom.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "bloom", Size: size, File: "bitmap", Width: 1, Checked: "bit-map: %d stripes checked", Estimates: true,
		New: func(spec engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			h, err := engine.BitMapHeader(spec, b, true)
			if err == nil {
				err = engine.FitsMemory(spec, h)
			}
			if err != nil {
				return nil, err
			}
			return newMemory(h)
		},
		BitMap: newMemory,
		Read: func(spec engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) {
			bits, from, err := read(path)
			if err != nil {
				return nil, 0, err
			}
			if err := madeFor(spec, bits.Header()); err != nil {
				return nil, 0, errors.Join(fmt.Errorf("%s: %w", path, err), bits.Close())
			}
			return asMemory(bits), from, nil
		},
	}
}

// madeFor checks that a bit-map is of the size and the rate of its filter's description.
func madeFor(spec engine.Spec, h bloom.Header) error {
	p, ok := spec.Params.(configs.Bloom)
	if !ok || p.Capacity == h.Capacity && p.ErrorRate == h.ErrorRate {
		return nil
	}
	return fmt.Errorf("%w: it was made for capacity %d and error rate %v, the filter's description says %d and %v",
		bloom.ErrCorrupt, h.Capacity, h.ErrorRate, p.Capacity, p.ErrorRate)
}

// bitMap is a bloom.Map or a bloom.Growing.
type bitMap interface {
	Header() bloom.Header
	OnAdd(func(keys []bloom.Hash, fresh []bool))
	Add(keys []bloom.Hash, fresh []bool) int
	Has(keys []bloom.Hash, fresh []bool)
	Prefetcher() bloom.Prefetcher
	Stripe(i int, buf []byte) []byte
	MergeStripe(i int, data []byte) error
	Reach(i int) error
	Fill() bloom.Fill
	MemoryFor(n uint64) uint64
	Close() error
}

// memory implements kind.Memory with a bit-map.
type memory struct {
	bitMap
	fresh []bool // for Apply
}

// layered is a memory that grows.
type layered struct {
	*memory
	bits *bloom.Growing // the same
}

var _ kind.Layered = layered{}

func (l layered) Memory() uint64        { return l.bits.Memory() }
func (l layered) Layers() []bloom.Layer { return l.bits.Layers() }
func (l layered) Outgrown() bool        { return l.bits.Outgrown() }

// growth marks an added layer in the journal: a value that is almost certainly no key, with the
// number of layers in Lo.
const growth = 0x67726f77_6c617965 // "growlaye"

func (l layered) Log(j kind.Journal) {
	l.memory.Log(j)
	l.bits.OnGrow(func(layers int) {
		j.Append([]bloom.Hash{{Hi: growth, Lo: uint64(layers)}}, []bool{true})
	})
}

// Apply implements kind.Memory: it fills the layers as before, so that an item that a layer
// wrongly took for seen is not new after a restart.
func (l layered) Apply(keys []bloom.Hash) error {
	fresh := l.room(len(keys))
	for len(keys) > 0 {
		n := slices.IndexFunc(keys, func(k bloom.Hash) bool { return k.Hi == growth && k.Lo <= bloom.MaxLayers })
		if n < 0 {
			n = len(keys)
		}
		l.bits.AddAsItWas(keys[:n], fresh)
		if keys = keys[n:]; len(keys) > 0 {
			if err := l.bits.GrowTo(int(keys[0].Lo)); err != nil {
				return err
			}
			keys = keys[1:]
		}
	}
	return nil
}

func asMemory(bits bitMap) kind.BitMap {
	m := &memory{bitMap: bits}
	if grows, ok := bits.(*bloom.Growing); ok {
		return layered{m, grows}
	}
	return m
}

func newBits(h bloom.Header) (bitMap, error) {
	if h.Layers == 0 {
		return notNil(bloom.New(h))
	}
	return notNil(bloom.NewGrowing(h))
}

// notNil returns m as a bitMap, which is nil after an error.
func notNil[M bitMap](m M, err error) (bitMap, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func newMemory(h bloom.Header) (kind.BitMap, error) {
	bits, err := newBits(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	return asMemory(bits), nil
}

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return m.bitMap.Add(keys, fresh), nil
}
func (m *memory) Log(j kind.Journal)             { m.OnAdd(j.Append) }
func (m *memory) Seed() uint64                   { return m.Header().Seed }
func (m *memory) Checked() int                   { return m.Header().Stripes() }
func (m *memory) Bytes() uint64                  { return m.Header().Bytes() }
func (m *memory) MemoryFor(o engine.More) uint64 { return m.bitMap.MemoryFor(uint64(o.Items)) }
func (m *memory) Free() error                    { return m.Close() }

func (m *memory) Stats() engine.Stats {
	h, fill := m.Header(), m.Fill()
	return engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
}

func (m *memory) Apply(keys []bloom.Hash) error {
	m.bitMap.Add(keys, m.room(len(keys)))
	return nil
}

// room returns space for results about n keys that Apply does not need.
func (m *memory) room(n int) []bool {
	if len(m.fresh) < n {
		m.fresh = make([]bool, n)
	}
	return m.fresh
}

func (m *memory) Write(fs disk.FS, path string, from uint64) error {
	return write(fs, path, m.bitMap, from, nil)
}

func (m *memory) WriteWith(fs disk.FS, path string, from uint64, more func(i int, stripe []byte) error) error {
	return write(fs, path, m.bitMap, from, more)
}
