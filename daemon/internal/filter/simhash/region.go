package simhash

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// region has the entries of some buckets, in memory that is not on Go's heap: that of lists which
// grow would be garbage until the collector gets a processor.
//
// An entry is the number of a fingerprint. The entries of a bucket are a block:
//
//	word   0        place of the bucket in buckets; of a block that was left: left + words of the block
//	word   1        room for the numbers, in their order
//	word   1+room   if room > foldAt: room for the fold of each
//
// Blocks follow each other. A bucket that is full moves to a larger block at the end, and once the blocks that were
// left are an eighth of all, the others move together.
type region struct {
	buckets []bucket
	foldAt  uint32
	mem     mapped.Memory
	words   []uint32 // mem
	used    int      // words
	left    int      // of them, of blocks that were left
}

// bucket has the numbers of fingerprints that are equal in a group of bits; or it is divided.
type bucket struct {
	at uint32 // the word at which its block begins, or which of the index's divisions it is
	n  uint32 // entries, or divided
}

const (
	divided = 1<<32 - 1
	left    = 1 << 31

	pageBytes   = 4 << 10
	regionBytes = 16 << 10 // less memory is from the heap
	maxWords    = left - 1
)

// rooms are for how many entries a block can be made: each has room for a quarter and two more than
// the one before.
var rooms = func() (all []uint32) {
	for room := uint32(0); room < 1<<30; {
		room += room/4 + 2
		all = append(all, room)
	}
	return all
}()

// smallRooms is room of small numbers.
var smallRooms = func() (all [1 << 10]uint16) {
	for n := 1; n < len(all); n++ {
		all[n] = uint16(rooms[searchRoom(uint32(n))])
	}
	return all
}()

func searchRoom(n uint32) int {
	i, _ := slices.BinarySearch(rooms, n)
	return i
}

// room is for how many entries a bucket of n has a block.
func room(n uint32) uint32 {
	if n < uint32(len(smallRooms)) {
		return uint32(smallRooms[n])
	}
	return rooms[searchRoom(n)]
}

func (r *region) folded(room uint32) bool { return room > r.foldAt }

// size is how many words a block has.
func (r *region) size(room uint32) int {
	switch {
	case room == 0:
		return 0
	case r.folded(room):
		return 1 + 2*int(room)
	}
	return 1 + int(room)
}

// entries are the numbers that a bucket has, and the folds if it has them.
func (r *region) entries(b bucket) (refs, folds []uint32) {
	from := int(b.at) + 1
	refs = r.words[from : from+int(b.n)]
	if room := room(b.n); r.folded(room) {
		folds = r.words[from+int(room):][:b.n]
	}
	return refs, folds
}

// append puts an entry into a bucket that has room.
func (r *region) append(b *bucket, ref uint32, print uint64) {
	at := b.at + 1 + b.n
	r.words[at] = ref
	b.n++
	if room := room(b.n); r.folded(room) {
		r.words[at+room] = fold(print)
	}
}

// enlarge gives a full bucket a larger block. The folds that it has none of yet are made of prints.
func (r *region) enlarge(place int, prints *column[uint64]) error {
	b := &r.buckets[place]
	was := room(b.n)
	now := room(b.n + 1)
	if b.n > 0 && int(b.at)+r.size(was) == r.used { // the last one grows where it is
		if err := r.reserve(r.size(now) - r.size(was)); err != nil {
			return err
		}
		r.used = int(b.at) + r.size(now) // it may have moved
	} else {
		if err := r.reserve(r.size(now)); err != nil {
			return err
		}
		copy(r.words[r.used:], r.words[b.at:int(b.at)+r.size(was)])
		r.leave(*b)
		b.at = uint32(r.used)
		r.used += r.size(now)
	}
	r.words[b.at] = uint32(place)
	if !r.folded(now) {
		return nil
	}
	block := r.words[b.at+1:]
	if r.folded(was) {
		copy(block[now:], block[was:was+b.n])
		return nil
	}
	for i, ref := range block[:b.n] {
		block[int(now)+i] = fold(prints.at(ref))
	}
	return nil
}

// leave leaves the block of a bucket.
func (r *region) leave(b bucket) {
	if size := r.size(room(b.n)); size > 0 {
		r.words[b.at] = left | uint32(size)
		r.left += size
	}
}

// reserve makes room for more words at the end. Blocks may move.
func (r *region) reserve(more int) error {
	if r.used+more > len(r.words) && r.left >= len(r.words)/8 {
		r.compact()
	}
	if r.used+more <= len(r.words) {
		return nil
	}
	size := 4 * max(r.used+more, len(r.words)+len(r.words)/16)
	size = max((size+pageBytes-1)/pageBytes*pageBytes, regionBytes)
	if size/4 > maxWords {
		return fmt.Errorf("%d bytes for fingerprints that have much in common: more than there can be", size)
	}
	mem, err := r.mem.Extend(size)
	if err != nil {
		return fmt.Errorf("fingerprints in %d bytes: %w", size, err)
	}
	r.mem = mem
	r.words = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(r.mem))), len(r.mem)/4)
	return nil
}

// compact moves all blocks together.
func (r *region) compact() {
	to := 0
	for from := 0; from < r.used; {
		head := r.words[from]
		if head >= left {
			from += int(head - left)
			continue
		}
		b := &r.buckets[head]
		size := r.size(room(b.n))
		if to < from {
			copy(r.words[to:to+size], r.words[from:])
			b.at = uint32(to)
		}
		to += size
		from += size
	}
	r.used, r.left = to, 0
}

func (r *region) bytes() uint64 {
	return uint64(len(r.mem)) + uint64(len(r.buckets))*uint64(unsafe.Sizeof(bucket{})) + uint64(unsafe.Sizeof(region{}))
}
