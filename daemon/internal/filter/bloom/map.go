// Package bloom implements the bit-map of a filter, format 1: a split-block Bloom filter
// with 512-bit blocks, its header, its checksums and its layout as bytes. docs/format.md
// describes it for implementations in other languages.
//
// The package keeps bits in memory and turns them into bytes and back. It opens no
// file and knows no store; durability is its callers' work.
package bloom

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

const (
	k          = 8 // bits an item sets, one in each word of its block; twice as many in pairs
	wordBits   = 64
	blockWords = 8
	blockBytes = blockWords * 8

	// chunk is how many keys are prefetched and then probed under one lock: their
	// blocks (32 KiB) and the keys (8 KiB) fit the first-level cache.
	chunk = 512
)

// Hash is the 128-bit xxh3 hash of an item: Hi picks the block, Lo the bits in it.
type Hash = xxh3.Uint128

// valueSalt sets items that are JSON values other than strings apart from strings,
// so that the number 1 and the string "1" differ. It is part of format 1.
const valueSalt = 0x75726966696c7472 // "urifiltr"

// Sum hashes a string item: its UTF-8 bytes, with the filter's secret seed.
func Sum(seed uint64, item []byte) Hash { return xxh3.Hash128Seed(item, seed) }

// SumValue hashes an item that is not a string: its RFC 8785 canonical JSON.
func SumValue(seed uint64, canonical []byte) Hash {
	return xxh3.Hash128Seed(canonical, seed^valueSalt)
}

// Prefetcher asks the processor for the blocks of keys, so that the probes that follow find
// them in its cache. Waiting for one cache miss after the other is most of the cost of a
// large map. The zero Prefetcher does nothing.
//
// It may outlive its map: then, and on processors without assembly for it, it is of no use, and
// does no harm. So it has no pointer, which would point to memory that is gone.
type Prefetcher struct {
	start  uintptr
	blocks uint64
}

// Ahead is how many keys a caller that hashes them should prefetch at a time: the processor
// then waits for so few blocks at once that it can hash the next items meanwhile. It cannot if
// there are more blocks than it keeps track of (some 12 to 24).
const Ahead = 8

// MaxAhead is how many keys may be prefetched before the first is probed. Their blocks
// (256 KiB) fit the second-level cache.
const MaxAhead = 4096

// Prefetch asks for the blocks of keys.
func (p Prefetcher) Prefetch(keys []Hash) {
	if p.blocks > 0 {
		prefetchBlocks(p.start, p.blocks, keys)
	}
}

// Map is a bit-map. It is safe for concurrent use.
type Map struct {
	header Header
	mem    mapped.Memory
	blocks []block
	ahead  Prefetcher
	probes *probes

	mu  sync.RWMutex // guards the bits, and what follows
	set uint64       // bits that are 1
	// onAdd is called with mu held for every chunk with a fresh key, so that its
	// calls come in the order in which keys became visible as seen.
	onAdd func(keys []Hash, fresh []bool)
}

type block [blockWords]uint64

// New makes an empty map. Its memory is taken from the system when first touched.
func New(h Header) (*Map, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Layers > 0 {
		return nil, fmt.Errorf("bit-map that grows, in %d layers: want one of fixed size", h.Layers)
	}
	return makeMap(h)
}

// makeMap is New for a header that is known to be sound.
func makeMap(h Header) (*Map, error) {
	mem, err := mapped.Allocate(int(h.Blocks * blockBytes))
	if err != nil {
		return nil, fmt.Errorf("bit-map of %d bytes: %w", h.Blocks*blockBytes, err)
	}
	start := unsafe.Pointer(unsafe.SliceData(mem))
	return &Map{
		header: h,
		mem:    mem,
		blocks: unsafe.Slice((*block)(start), h.Blocks),
		ahead:  Prefetcher{start: uintptr(start), blocks: h.Blocks},
		probes: h.probes(),
	}, nil
}

// Close frees the memory. The map must not be used afterwards.
func (m *Map) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks = nil
	return m.mem.Free()
}

// Header describes the map.
func (m *Map) Header() Header { return m.header }

// OnAdd sets the function that Add calls with the lock held, before any other caller
// can see the fresh keys among keys as seen. It is set once, before the first Add.
func (m *Map) OnAdd(f func(keys []Hash, fresh []bool)) { m.onAdd = f }

// Add sets the bits of keys, sets fresh[i] to whether any bit of keys[i] was not yet
// set, and returns how many keys were fresh. Of equal keys, in one call or in several
// at the same time, exactly one is fresh. len(fresh) must be len(keys).
func (m *Map) Add(keys []Hash, fresh []bool) int {
	_ = fresh[:len(keys)]
	n := 0
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		n += m.addChunk(keys[start:end], fresh[start:end])
	}
	return n
}

func (m *Map) addChunk(keys []Hash, fresh []bool) int {
	m.ahead.Prefetch(keys)
	m.mu.Lock()
	n, set := m.probes.addKeys(m.blocks, keys, fresh)
	m.set += uint64(set)
	if n > 0 && m.onAdd != nil {
		m.onAdd(keys, fresh)
	}
	m.mu.Unlock()
	return n
}

// Has sets fresh[i] to whether keys[i] was never added. It changes nothing.
func (m *Map) Has(keys []Hash, fresh []bool) {
	_ = fresh[:len(keys)]
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		m.hasChunk(keys[start:end], fresh[start:end])
	}
}

func (m *Map) hasChunk(keys []Hash, fresh []bool) {
	m.ahead.Prefetch(keys)
	m.mu.RLock()
	m.probes.hasKeys(m.blocks, keys, fresh)
	m.mu.RUnlock()
}

// Prefetcher returns a Prefetcher for callers of Add and Has that hash the keys themselves.
// Both methods prefetch all keys too, which costs little if it was done before.
func (m *Map) Prefetcher() Prefetcher { return m.ahead }

// Fill describes how full a map is.
type Fill struct {
	Ratio float64 // bits that are 1 among all
	Items uint64  // estimate of the distinct items added
	FPR   float64 // estimate of the present false-positive rate
}

// Fill estimates how full the map is from the number of bits that are set.
func (m *Map) Fill() Fill { return m.header.Fill(m.Ones()) }

// MemoryFor returns how many bytes of memory the map takes once it has n more items: none while it
// is empty, for the system gives memory to what is written.
func (m *Map) MemoryFor(n uint64) uint64 {
	if n == 0 && m.Ones() == 0 {
		return 0
	}
	return m.header.Bytes()
}

// Ones returns how many bits are set.
func (m *Map) Ones() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.set
}

// Reach returns an error if the map does not have stripe i.
func (m *Map) Reach(i int) error {
	if i < 0 || i >= m.header.Stripes() {
		return fmt.Errorf("%w: stripe %d: there are %d", ErrCorrupt, i, m.header.Stripes())
	}
	return nil
}

// Fill estimates how full a map is, given how many of its bits are 1.
func (h Header) Fill(set uint64) Fill {
	items := h.itemsFromFill(set)
	return Fill{
		Ratio: float64(set) / float64(h.Bytes()*8),
		Items: uint64(items + 0.5),
		FPR:   expectedFPR(items/float64(h.Blocks), h.K()),
	}
}
