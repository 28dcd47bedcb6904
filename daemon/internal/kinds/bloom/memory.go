// Package bloom is the kind bloom: items are bits of a bit-map of fixed size, which takes
// a few new items for seen. The bit-map itself is of the package of that name beside the
// kinds; here is how it is made of a spec, and its file.
package bloom

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// Kind is the kind bloom.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "bloom", File: "bitmap", Width: 1, Checked: "bit-map: %d stripes checked", Estimates: true,
		New: func(spec engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			h, err := engine.BitMapHeader(spec, b)
			if err != nil {
				return nil, err
			}
			return newMemory(h)
		},
		BitMap: newMemory,
		Read: func(_ engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) {
			bits, from, err := read(path)
			if err != nil {
				return nil, 0, err
			}
			return &memory{Map: bits}, from, nil
		},
	}
}

// memory is a bit-map as memory.
type memory struct {
	*bloom.Map
	fresh []bool // for Apply
}

func newMemory(h bloom.Header) (kind.BitMap, error) {
	bits, err := bloom.New(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	return &memory{Map: bits}, nil
}

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	return m.Map.Add(keys, fresh), nil
}
func (m *memory) Log(j kind.Journal) { m.OnAdd(j.Append) }
func (m *memory) Seed() uint64       { return m.Header().Seed }
func (m *memory) Checked() int       { return m.Header().Stripes() }
func (m *memory) Bytes() uint64      { return m.Header().Bytes() }
func (m *memory) Free() error        { return m.Close() }

func (m *memory) Stats() engine.Stats {
	h, fill := m.Header(), m.Fill()
	return engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
}

func (m *memory) Apply(keys []bloom.Hash) error {
	if len(m.fresh) < len(keys) {
		m.fresh = make([]bool, len(keys))
	}
	m.Map.Add(keys, m.fresh)
	return nil
}

func (m *memory) Write(fs durable.FS, path string, from uint64) error {
	return write(fs, path, m.Map, from, nil)
}

func (m *memory) WriteWith(fs durable.FS, path string, from uint64, more func(i int, stripe []byte) error) error {
	return write(fs, path, m.Map, from, more)
}
