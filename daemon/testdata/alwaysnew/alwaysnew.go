// Package alwaysnew is a kind of filter that remembers nothing: every item is new, in every
// call. It only serves to show what a kind needs; a test builds the daemon with it.
package alwaysnew

import (
	"encoding/binary"
	"os"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind always_new.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "always_new", File: "nothing", Width: 1, Checked: "nothing: %d files checked",
		New: func(spec engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			return &memory{seed: b.Seed, generation: b.Generation, every: every(spec)}, nil
		},
		Read: read,
	}
}

// memory is the part of a filter that does not change. Its file consists of the seed, the
// generation, and the first journal segment that is not covered, 8 bytes each, and their
// CRC-32C.
type memory struct{ seed, generation, every uint64 }

func every(spec engine.Spec) uint64 {
	params, _ := spec.Params.(configs.AlwaysNew)
	return params.Every
}

func read(spec engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	le := binary.LittleEndian
	if len(data) != 28 || bloom.Checksum(data[:24]) != le.Uint32(data[24:]) {
		return nil, 0, bloom.ErrCorrupt
	}
	return &memory{le.Uint64(data), le.Uint64(data[8:]), every(spec)}, le.Uint64(data[16:]), nil
}

func (m *memory) Write(fs disk.FS, path string, from uint64) error {
	var data []byte
	for _, n := range []uint64{m.seed, m.generation, from} {
		data = binary.LittleEndian.AppendUint64(data, n)
	}
	data = binary.LittleEndian.AppendUint32(data, bloom.Checksum(data))
	return fs.WriteFile("nothing", path, func(f *disk.File) error { return f.WriteAt("nothing-write", data, 0) })
}

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (int, error) {
	m.Has(keys, fresh)
	n := 0
	for _, is := range fresh {
		if is {
			n++
		}
	}
	return n, nil
}

func (m *memory) Has(_ []bloom.Hash, fresh []bool) {
	for i := range fresh {
		fresh[i] = m.every == 0 || uint64(i+1)%m.every != 0
	}
}

func (m *memory) Log(kind.Journal)             {}
func (m *memory) Apply([]bloom.Hash) error     { return nil }
func (m *memory) Seed() uint64                 { return m.seed }
func (m *memory) Stats() engine.Stats          { return engine.Stats{Generation: m.generation} }
func (m *memory) Checked() int                 { return 1 }
func (m *memory) Bytes() uint64                { return 0 }
func (m *memory) MemoryFor(engine.More) uint64 { return 0 }
func (m *memory) Free() error                  { return nil }
