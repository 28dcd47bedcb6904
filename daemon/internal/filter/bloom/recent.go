package bloom

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// Recent knows some of the items of a map whose bits are elsewhere: those that were asked for
// last, in as much memory as it is given. It has no false positives of its own: an entry stands
// for the block and all bits of an item, and the map has these bits if Recent has the entry.
//
// It is a set-associative cache. The blocks of the map are distributed evenly, in their order,
// over sets of eight entries, a cache line. The youngest entry of a set is first; a new one
// replaces the last. An entry has the low 16 bits of its block's number, which tell apart the
// blocks of a set, and the 48 bits of Lo that say where its bits are. So the entries of a stripe
// lie side by side, and a stripe can be made from them.
//
// Eight bytes per item are more than the three of a map that has all items. But items that are
// asked for again are mostly those that were asked for lately, and those are here, whichever
// blocks they are in. If the same memory were used for whole blocks, each block would be evicted
// for the sake of one item.
//
// It is safe for concurrent use.
type Recent struct {
	header   Header
	target   atomic.Uint64 // bytes that it may take
	next     atomic.Uint32 // the part that Adjust looks at next
	evicted  atomic.Uint64
	asked    atomic.Uint64
	found    atomic.Uint64
	segments [recentParts]segment
}

const (
	recentWays  = 8
	recentParts = 64 // each with its own lock, and resized by itself
	wayBytes    = 8
	setBytes    = recentWays * wayBytes
	loMask      = 1<<48 - 1
	// setBlocks is the most blocks that a set may have: fewer than 16 bits can tell apart.
	setBlocks = 1 << 15
)

// segment has the entries of the blocks from first on.
type segment struct {
	first, blocks uint64

	mu   sync.Mutex
	mem  mapped.Memory
	sets []recentSet
}

type recentSet [recentWays]uint64

// NewRecent makes a Recent that knows nothing, for the map h, which may be a layer. Its memory is
// taken from the system when first touched.
func NewRecent(h Header, bytes uint64) (*Recent, error) {
	if h.Layers > 0 || h.Blocks < 1 || h.Blocks > maxBlocks {
		return nil, fmt.Errorf("mirror of a bit-map of %d blocks in %d layers: want one of fixed size, or one layer", h.Blocks, h.Layers)
	}
	r := &Recent{header: h}
	r.target.Store(bytes)
	for i := range r.segments {
		s := &r.segments[i]
		s.first = h.firstOf(i)
		s.blocks = h.firstOf(i+1) - s.first
		if _, err := s.resize(s.setsFor(bytes)); err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("mirror of %d bytes: %w", bytes, err)
		}
	}
	return r, nil
}

// firstOf returns the first block of segment i: the least b with b * recentParts / blocks = i.
func (h Header) firstOf(i int) uint64 {
	hi, lo := bits.Mul64(uint64(i), h.Blocks)
	lo, carry := bits.Add64(lo, recentParts-1, 0)
	first, _ := bits.Div64(hi+carry, lo, recentParts)
	return first
}

func (s *segment) setsFor(bytes uint64) uint64 {
	if s.blocks == 0 {
		return 0
	}
	return min(max(bytes/recentParts/setBytes, s.blocks/setBlocks+1), s.blocks)
}

// resize gives the segment another number of sets, keeps the youngest entries, and returns how
// many others were evicted. The caller holds mu, or is the only one that knows the segment.
func (s *segment) resize(sets uint64) (evicted uint64, err error) {
	if sets == uint64(len(s.sets)) {
		return 0, nil
	}
	mem, err := mapped.Allocate(int(sets * setBytes))
	if err != nil {
		return 0, err
	}
	old, oldMem := s.sets, s.mem
	s.mem, s.sets = mem, unsafe.Slice((*recentSet)(unsafe.Pointer(unsafe.SliceData(mem))), sets)
	// The oldest entries of all sets come first, so that the youngest stay when sets are merged.
	for way := recentWays - 1; way >= 0; way-- {
		for i := range old {
			if e := old[i][way]; e != 0 {
				local := localOf(e, firstIn(uint64(i), uint64(len(old)), s.blocks), s.first)
				if s.sets[setOf(local, sets, s.blocks)].add(e) {
					evicted++
				}
			}
		}
	}
	if oldMem == nil {
		return 0, nil
	}
	return evicted, oldMem.Free()
}

// setOf returns the set of a block of a segment, in proportion.
func setOf(local, sets, blocks uint64) uint64 {
	hi, lo := bits.Mul64(local, sets)
	set, _ := bits.Div64(hi, lo, blocks)
	return set
}

// firstIn returns the first block of a segment that falls into a set.
func firstIn(set, sets, blocks uint64) uint64 {
	hi, lo := bits.Mul64(set, blocks)
	lo, carry := bits.Add64(lo, sets-1, 0)
	first, _ := bits.Div64(hi+carry, lo, sets)
	return first
}

// localOf returns the block of an entry, counted from the first of the segment: the first block from
// from on, which is the first of the entry's set, whose low 16 bits are those that the entry has.
func localOf(entry, from, first uint64) uint64 {
	return from + uint64(uint16(entry>>48)-uint16(first+from))
}

// entryOf returns the entry of an item. It is 0 for one item in 2^64, which is never known.
func entryOf(block, lo uint64) uint64 { return block<<48 | lo&loMask }

// has reports whether the set has the entry, and makes it the youngest.
func (s *recentSet) has(entry uint64) bool {
	for i, e := range s {
		if e == entry {
			copy(s[1:i+1], s[:i])
			s[0] = entry
			return true
		}
	}
	return false
}

// add makes entry the youngest, and reports whether another one was evicted.
func (s *recentSet) add(entry uint64) (evicted bool) {
	if s.has(entry) {
		return false
	}
	evicted = s[recentWays-1] != 0
	copy(s[1:], s[:recentWays-1])
	s[0] = entry
	return evicted
}

// segmentOf returns the segment that has a block: the inverse of firstOf.
func (r *Recent) segmentOf(block uint64) *segment {
	hi, lo := bits.Mul64(block, recentParts)
	i, _ := bits.Div64(hi, lo, r.header.Blocks)
	return &r.segments[i]
}

// Missing sets missing[i] to 0 if keys[i] is known, and else to all of its bits, as
// [Map.Missing] does. Known keys that are asked for become the youngest.
func (r *Recent) Missing(keys []Hash, missing []uint16) {
	_ = missing[:len(keys)]
	found, all := 0, r.header.AllMissing()
	for i, key := range keys {
		block := blockOf(key, r.header.Blocks)
		entry, known := entryOf(block, key.Lo), false
		s := r.segmentOf(block)
		s.mu.Lock()
		if len(s.sets) > 0 && entry != 0 {
			known = s.sets[setOf(block-s.first, uint64(len(s.sets)), s.blocks)].has(entry)
		}
		s.mu.Unlock()
		missing[i] = all
		if known {
			missing[i] = 0
			found++
		}
	}
	r.asked.Add(uint64(len(keys)))
	r.found.Add(uint64(found))
}

// Learn adds items that the map has.
func (r *Recent) Learn(keys []Hash) {
	evicted := 0
	for _, key := range keys {
		block := blockOf(key, r.header.Blocks)
		entry := entryOf(block, key.Lo)
		s := r.segmentOf(block)
		s.mu.Lock()
		if len(s.sets) > 0 && entry != 0 && s.sets[setOf(block-s.first, uint64(len(s.sets)), s.blocks)].add(entry) {
			evicted++
		}
		s.mu.Unlock()
	}
	r.evicted.Add(uint64(evicted))
}

// Stripe writes the bits of the known items of stripe i into buf, which it returns cut to length,
// as [Map.Stripe] does.
func (r *Recent) Stripe(i int, buf []byte) []byte {
	const blocks = StripeBytes / blockBytes
	buf = buf[:r.header.StripeSize(i)]
	clear(buf)
	from := uint64(i) * blocks
	to := from + uint64(len(buf)/blockBytes)
	for k := range r.segments {
		s := &r.segments[k]
		if s.first+s.blocks > from && s.first < to {
			s.write(buf, from, to, r.header)
		}
	}
	return buf
}

// lockedSets is how many sets a copy reads under one lock: it bounds how long a batch waits.
const lockedSets = 4096

// write sets the bits of the blocks in [from, to) in buf.
func (s *segment) write(buf []byte, from, to uint64, h Header) {
	begin, end := max(from, s.first)-s.first, min(to, s.first+s.blocks)-s.first // of blocks
	for at := begin; at < end; {
		s.mu.Lock()
		sets := uint64(len(s.sets))
		if sets == 0 {
			s.mu.Unlock()
			return
		}
		i := setOf(at, sets, s.blocks)
		for last := min(i+lockedSets, setOf(end-1, sets, s.blocks)+1); i < last; i++ {
			first := firstIn(i, sets, s.blocks)
			for _, e := range s.sets[i] {
				if e == 0 {
					continue
				}
				if block := s.first + localOf(e, first, s.first); block >= from && block < to {
					h.setBits(buf, int(block-from), e)
				}
			}
		}
		at = s.blocks
		if i < sets {
			at = firstIn(i, sets, s.blocks) // also valid if the segment has been resized by then
		}
		s.mu.Unlock()
	}
}

// setBits sets the bits of an item in the bytes of a stripe: block is counted from the stripe's
// first block, and lo is Lo of the item's hash.
func (h Header) setBits(stripe []byte, block int, lo uint64) {
	words := stripe[block*blockBytes : (block+1)*blockBytes]
	also := lo
	if h.pairs {
		lo, also = pair(lo)
	}
	for w := range blockWords {
		word := words[w*8 : w*8+8]
		set := uint64(1)<<(lo&(wordBits-1)) | 1<<(also&(wordBits-1))
		binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)|set)
		lo, also = lo>>6, also>>6
	}
}

// Set sets the bits of a key in data, the bytes of the stripe that has them.
func (h Header) Set(data []byte, key Hash) {
	h.setBits(data, int(blockOf(key, h.Blocks)%(StripeBytes/blockBytes)), key.Lo)
}

// SetTarget sets how many bytes r may take from now on. Adjust applies it.
func (r *Recent) SetTarget(bytes uint64) { r.target.Store(bytes) }

// Adjust brings a 64th of r to its target size; repeated calls do so for all of r. So resizing
// never takes the memory of both sizes.
func (r *Recent) Adjust() error {
	s := &r.segments[r.next.Add(1)%recentParts]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil && s.blocks > 0 {
		return nil // closed
	}
	want, have := s.setsFor(r.target.Load()), uint64(len(s.sets))
	if want <= have && want > have-have/16 {
		return nil // the target hardly changed, as filters came or went; never more than it may
	}
	evicted, err := s.resize(want)
	r.evicted.Add(evicted)
	return err
}

// Fit is Adjust for all of r.
func (r *Recent) Fit() error {
	for range recentParts {
		if err := r.Adjust(); err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns how much memory r has taken, or may take without being resized.
func (r *Recent) Bytes() (n uint64) {
	for i := range r.segments {
		s := &r.segments[i]
		s.mu.Lock()
		n += uint64(len(s.mem))
		s.mu.Unlock()
	}
	return n
}

// Counts returns how many items r was asked for, how many of them it knew, and how many it has
// evicted: for later ones, or when it became smaller.
func (r *Recent) Counts() (asked, found, evicted uint64) {
	return r.asked.Load(), r.found.Load(), r.evicted.Load()
}

// Close frees the memory; r knows nothing from then on.
func (r *Recent) Close() error {
	var first error
	for i := range r.segments {
		s := &r.segments[i]
		s.mu.Lock()
		if s.mem != nil {
			if err := s.mem.Free(); err != nil && first == nil {
				first = err
			}
		}
		s.mem, s.sets = nil, nil
		s.mu.Unlock()
	}
	return first
}
