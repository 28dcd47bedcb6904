// Package scaling is the kind scaling: the Bloom filters of RedisBloom, bit for bit, for those who
// come from there, or who may want to go back. Dumps of RedisBloom 2 can be loaded, and its own
// loaded there. For anything else the kind bloom is faster, and archived.
//
// Its hashes have no secret seed, because RedisBloom's have none: whoever chooses the items can
// craft ones that are taken for seen.
package scaling

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind scaling.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "scaling", File: "layers", Width: 2, Checked: "layers: %d checked", Size: size,
		New: func(spec engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			if b.Dump != nil {
				c, err := assemble(b.Dump.Head, b.Dump.Bits)
				if err != nil {
					return nil, err
				}
				return newMemory(c, b.Generation, b.Created.UnixNano()), nil
			}
			p := spec.Params.(configs.Scaling)
			c, err := newChain(p.Capacity, p.ErrorRate, p.Expansion, p.Bound().Rejects())
			if err != nil {
				return nil, &engine.SpecError{Field: "capacity", Msg: err.Error()}
			}
			return newMemory(c, b.Generation, b.Created.UnixNano()), nil
		},
		Read: func(_ engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) { return read(path) },
	}
}

// memory implements kind.Memory with a chain. An entry of the journal is an item's two hashes and,
// in the second slot, Lo: the index of the layer that it was added to. So a restart sets the same
// bits in the same layers, and an item that these have wrongly taken for seen is seen again.
type memory struct {
	journal    kind.Journal
	generation uint64
	created    int64

	mu    sync.RWMutex // guards the following
	chain *chain
	slots []bloom.Hash // of a chunk, for the journal

	// layers are the chain's, of which all but the last do not change any more; so they are read
	// without the lock. They are set under it, when the journal has what the last one has.
	layers atomic.Pointer[[]*layer]
	// held is how many bytes the layers have, and room how many items fit the last: for MemoryFor,
	// which would otherwise wait for those who add.
	held, room atomic.Uint64
}

// newMemory makes the memory of a chain.
func newMemory(c *chain, generation uint64, created int64) *memory {
	m := &memory{chain: c, generation: generation, created: created}
	m.publish()
	return m
}

// publish shows what has changed under the lock. The room of a new layer is shown after its bytes.
func (m *memory) publish() {
	l := m.chain.last()
	if all := m.layers.Load(); all == nil || len(*all) != len(m.chain.layers) {
		layers := slices.Clone(m.chain.layers)
		m.held.Store(m.chain.bytes())
		m.layers.Store(&layers)
	}
	m.room.Store(l.capacity - min(l.items, l.capacity))
}

var _ kind.Dumped = (*memory)(nil)

func (m *memory) Hash(item []byte) bloom.Hash { return hash(item) }
func (m *memory) Seed() uint64                { return 0 }
func (m *memory) Log(j kind.Journal)          { m.journal = j }

// Free implements kind.Memory.
func (m *memory) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chain.free()
}

func (m *memory) Add(keys []bloom.Hash, fresh []bool) (n int, err error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for from := 0; from < len(keys) && err == nil; from += chunk {
		var added int
		to := min(from+chunk, len(keys))
		added, err = m.addChunk(s, keys[from:to], fresh[from:to])
		n += added
	}
	return n, err
}

func (m *memory) addChunk(s *scratch, keys []bloom.Hash, fresh []bool) (n int, err error) {
	layers := *m.layers.Load()
	s.begin(layers, keys, fresh)
	last := len(layers) - 1
	l, places := layers[last], s.places
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slots = m.slots[:0]
	for i, key := range keys {
		if !fresh[i] {
			continue
		}
		own := places[:l.hashes]
		places = places[l.hashes:]
		switch {
		case m.chain.last() != l || l.items >= l.capacity && !m.chain.fixed:
			if fresh[i], err = m.chain.add(key, last); err != nil {
				return n, err
			}
		case l.all(own):
			fresh[i] = false
		default:
			l.setAll(own)
		}
		if fresh[i] {
			n++
			m.slots = append(m.slots, key, bloom.Hash{Lo: uint64(len(m.chain.layers) - 1)})
		}
	}
	if n > 0 {
		m.journal.AppendEntries(m.slots)
		m.publish()
	}
	return n, nil
}

func (m *memory) Has(keys []bloom.Hash, fresh []bool) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for from := 0; from < len(keys); from += chunk {
		to := min(from+chunk, len(keys))
		m.hasChunk(s, keys[from:to], fresh[from:to])
	}
}

func (m *memory) hasChunk(s *scratch, keys []bloom.Hash, fresh []bool) {
	layers := *m.layers.Load()
	s.begin(layers, keys, fresh)
	last := len(layers) - 1
	l, places := layers[last], s.places
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i := range keys {
		if fresh[i] {
			fresh[i] = !l.all(places[:l.hashes])
			places = places[l.hashes:]
		}
	}
	for _, l := range m.chain.layers[len(layers):] { // made meanwhile
		s.ask(l, keys, fresh)
	}
}

// Apply sets the bits as they were set. An item whose bits are there already is counted in the
// file.
func (m *memory) Apply(slots []bloom.Hash) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; len(slots) >= 2; slots = slots[2:] {
		key, at := slots[0], slots[1].Lo
		if at >= maxLayers {
			return fmt.Errorf("journal: %w: layer %d", bloom.ErrCorrupt, at)
		}
		for uint64(len(m.chain.layers)) <= at {
			if err := m.chain.grow(0); err != nil {
				return err
			}
		}
		if l := m.chain.layers[at]; !l.has(key) {
			l.add(key)
		}
	}
	m.publish()
	return nil
}

func (m *memory) Stats() engine.Stats {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return engine.Stats{Items: m.chain.items(), Fill: m.chain.last().fill(), FPR: m.chain.rate(), Bytes: m.chain.bytes(), Generation: m.generation}
}

func (m *memory) Checked() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.chain.layers)
}

func (m *memory) Bytes() uint64 { return m.held.Load() }

// Memory implements kind.Dumped: what is used, and the next layer as soon as it may be needed.
func (m *memory) Memory() uint64 { return m.MemoryFor(engine.More{Items: 1}) }

// MemoryFor implements kind.Memory.
func (m *memory) MemoryFor(more engine.More) uint64 {
	if held := m.held.Load(); uint64(more.Items) <= m.room.Load() && held == m.held.Load() {
		return held
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.chain.bytesFor(uint64(more.Items))
}

// Layers implements kind.Dumped.
func (m *memory) Layers() engine.ScalingLayers {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d := engine.ScalingLayers{Layers: len(m.chain.layers), Items: m.chain.items(), Expansion: m.chain.expansion, Bytes: 32 + 64*uint64(len(m.chain.layers)) + m.chain.bytes()}
	if m.chain.fixed {
		d.Expansion = 0
	}
	for _, l := range m.chain.layers {
		d.Capacity += l.capacity
	}
	return d
}

// Chunk implements kind.Dumped.
func (m *memory) Chunk(iterator int64) (next int64, data []byte, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.chain.chunk(iterator)
}

// assemble makes the chain of a dump's head and its bits.
func assemble(head, bits []byte) (*chain, error) {
	c, sizes, err := parseHead(head)
	if err != nil {
		return nil, err
	}
	for i, l := range c.layers {
		if uint64(len(bits)) < sizes[i] {
			return nil, errors.Join(fmt.Errorf("dump: %w: bits of layer %d are missing", bloom.ErrCorrupt, i), c.free())
		}
		if err := l.allocate(sizes[i]); err != nil {
			return nil, errors.Join(err, c.free())
		}
		bits = bits[copy(l.bits, bits):]
	}
	if len(bits) > 0 {
		return nil, errors.Join(fmt.Errorf("dump: %w: %d bytes after its last layer", bloom.ErrCorrupt, len(bits)), c.free())
	}
	return c, nil
}

// Shape returns what a filter is made with that can take a dump with this head, and how many
// bytes of bits follow it.
func Shape(head []byte) (p configs.Scaling, size uint64, err error) {
	c, sizes, err := parseHead(head)
	if err != nil {
		return p, 0, err
	}
	for _, n := range sizes {
		size += n
	}
	return configs.NewScaling(c.layers[0].capacity, c.errorRate, c.expansion, c.fixed), size, nil
}

// A file of layers is, integers little-endian:
//
//	offset  size  field
//	     0     8  "URILAYER"
//	     8     8  generation
//	    16     8  when the filter was made, in nanoseconds since 1970
//	    24     8  sequence number of the first journal segment that is not covered
//	    32     4  length n of the head
//	    36     n  the head of a dump
//	     …     4  CRC-32C of all before
//	     …     …  the bits of each layer, followed by their CRC-32C
//
// It is written under another name and renamed, so a wrong checksum always means damage.
const (
	magic     = "URILAYER"
	fixedHead = 36
)

func (m *memory) Write(fs disk.FS, path string, from uint64) error {
	return fs.WriteFile("layers", path, func(f *disk.File) error {
		// One layer is copied at a time, so that batches wait only for that. Items that are added
		// meanwhile are in the journal from `from` on. The head is the last that is read, so that
		// it counts every item whose bits are in the file; one without is counted once more when
		// the journal is applied, and the next layer comes that much earlier.
		le := binary.LittleEndian
		m.mu.RLock()
		layers := slices.Clone(m.chain.layers)
		m.mu.RUnlock()
		at := int64(fixedHead + chainBytes + len(layers)*layerBytes + 4)
		var piece []byte
		for _, l := range layers {
			m.mu.RLock()
			piece = append(piece[:0], l.bits...)
			m.mu.RUnlock()
			piece = le.AppendUint32(piece, bloom.Checksum(piece))
			if err := f.WriteAt("layers-write", piece, at); err != nil {
				return err
			}
			at += int64(len(piece))
		}
		m.mu.RLock()
		head := (&chain{layers: layers, expansion: m.chain.expansion, fixed: m.chain.fixed}).appendHead(nil)
		m.mu.RUnlock()
		top := append([]byte(nil), magic...)
		top = le.AppendUint64(top, m.generation)
		top = le.AppendUint64(top, uint64(m.created))
		top = le.AppendUint64(top, from)
		top = le.AppendUint32(top, uint32(len(head)))
		top = append(top, head...)
		top = le.AppendUint32(top, bloom.Checksum(top))
		if err := f.WriteAt("layers-write", top, 0); err != nil {
			return err
		}
		return nil
	})
}

func read(path string) (m *memory, from uint64, err error) {
	damaged := func(format string, args ...any) (*memory, uint64, error) {
		return nil, 0, fmt.Errorf("%s: %w: "+format, append([]any{path, bloom.ErrCorrupt}, args...)...)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	le := binary.LittleEndian
	top := make([]byte, fixedHead)
	if _, err := io.ReadFull(f, top); err != nil || string(top[:8]) != magic {
		return damaged("its head is missing, or of another file")
	}
	n := le.Uint32(top[32:])
	if n > chainBytes+maxLayers*layerBytes {
		return damaged("a head of %d bytes", n)
	}
	top = append(top, make([]byte, n+4)...)
	if _, err := io.ReadFull(f, top[fixedHead:]); err != nil {
		return damaged("it ends in its head")
	}
	if body := top[:len(top)-4]; le.Uint32(top[len(body):]) != bloom.Checksum(body) {
		return damaged("its head does not match the checksum")
	}
	c, sizes, err := parseHead(top[fixedHead : len(top)-4])
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.free())
		}
	}()
	sum := make([]byte, 4)
	for i, l := range c.layers {
		if st, err := f.Stat(); err != nil || uint64(st.Size()) < sizes[i] {
			return damaged("it ends in layer %d", i)
		}
		if err := l.allocate(sizes[i]); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", path, err)
		}
		if _, err := io.ReadFull(f, l.bits); err != nil {
			return damaged("it ends in layer %d", i)
		}
		if _, err := io.ReadFull(f, sum); err != nil || le.Uint32(sum) != bloom.Checksum(l.bits) {
			return damaged("layer %d does not match its checksum", i)
		}
	}
	if n, _ := io.CopyN(io.Discard, f, 1); n > 0 {
		return damaged("bytes follow its last layer")
	}
	return newMemory(c, le.Uint64(top[8:]), int64(le.Uint64(top[16:]))), le.Uint64(top[24:]), nil
}

// size implements kind.Kind.
func size(spec engine.Spec, c kind.Contents) (kind.Size, error) {
	p := spec.Params.(configs.Scaling)
	s := kind.Size{Journal: 2 * kind.SlotBytes, File: fixedHead + chainBytes + 4}
	chain := &chain{errorRate: p.ErrorRate, expansion: p.Expansion, fixed: p.Bound().Rejects()}
	for left, capacity := c.Items, p.Capacity; ; {
		l, bytes, err := chain.next(capacity)
		if err != nil {
			return s, err
		}
		chain.layers = append(chain.layers, &l)
		s.Memory += bytes
		s.File += bytes + layerBytes + 4
		l.items = min(left, l.capacity)
		if left -= l.items; left == 0 || chain.fixed {
			break
		}
	}
	for _, l := range chain.layers {
		s.FalsePositives += l.errorRate * float64(l.items) / float64(l.capacity)
	}
	return s, nil
}
