package simhash

import (
	"math/bits"
	"slices"
	"unsafe"
)

// Of D+1 groups of bits that have none in common, two fingerprints that differ in D bits are
// equal in at least one. So each fingerprint is in D+1 tables, one a group, in the bucket of
// those bits, and who is near another is in one of its buckets.
//
// A large bucket, as pages give that have much in common, also has 32 bits of each of its
// fingerprints, so that it is read in the order of memory: a nanosecond an entry instead of a
// miss of the cache. One that grows larger still is divided in the same way as the index, by
// the bits in which its fingerprints differ most, if that leaves fewer of them to be read. Its
// entries take D+1 times the memory then.
const (
	maxWidth = 16      // bits of a group
	foldAt   = 1 << 9  // entries of a bucket, from which on it has folds
	divideAt = 1 << 15 // from which on it may be divided
	maxDepth = 2       // divisions on the way to a bucket, beside the first
	pageBits = 8
)

// tables have the fingerprints of an index, or of a bucket that was divided, by groups of bits.
type tables []table

// table has a bucket for each value of a group of bits.
type table struct {
	mask  uint64
	low   uint8   // if the bits follow each other: the lowest
	order []uint8 // if they do not: all
	pages []*page
}

type page [1 << pageBits]bucket

// bucket has the numbers of fingerprints that are equal in a group of bits, in their order;
// or it is divided.
type bucket struct {
	refs  []uint32
	crowd *crowd // of a large one
}

// crowd is what a bucket has when it has many entries.
type crowd struct {
	folds   []uint32 // of the fingerprints that refs are the numbers of
	divided tables
	count   int // of what is divided
}

// len is how many entries it has, be it divided or not.
func (b *bucket) len() int {
	if b == nil {
		return 0
	}
	if b.divided() != nil {
		return b.crowd.count
	}
	return len(b.refs)
}

func (b *bucket) folds() []uint32 {
	if b.crowd == nil {
		return nil
	}
	return b.crowd.folds
}

func (b *bucket) divided() tables {
	if b == nil || b.crowd == nil {
		return nil
	}
	return b.crowd.divided
}

// fold makes 32 bits of a fingerprint. Folds differ in no more bits than the fingerprints do, so
// a reader of a large bucket looks for a fingerprint, which is somewhere in memory, only where the
// folds are near each other.
func fold(print uint64) uint32 { return uint32(print>>32) ^ uint32(print) }

// newTables are empty ones for groups of bits.
func newTables(masks []uint64) tables {
	all := make(tables, len(masks))
	for i, mask := range masks {
		low, width := bits.TrailingZeros64(mask), bits.OnesCount64(mask)
		t := table{mask: mask, low: uint8(low), pages: make([]*page, max(1, 1<<width>>pageBits))}
		if mask>>low != 1<<width-1 {
			for rest := mask; rest != 0; rest &= rest - 1 {
				t.order = append(t.order, uint8(bits.TrailingZeros64(rest)))
			}
		}
		all[i] = t
	}
	return all
}

// evenMasks are n groups of bits that follow each other.
func evenMasks(n int) []uint64 {
	masks := make([]uint64, n)
	low := 0
	for i := range masks {
		size := (Bits - low) / (n - i)
		masks[i] = (1<<min(size, maxWidth) - 1) << low
		low += size
	}
	return masks
}

// key is which bucket is a fingerprint's.
func (t *table) key(print uint64) uint32 {
	if t.order == nil {
		return uint32(print & t.mask >> t.low)
	}
	key := uint32(0)
	for i, bit := range t.order {
		key |= uint32(print>>bit&1) << i
	}
	return key
}

// bucket is that of a fingerprint, nil if nothing was ever in it or beside it.
func (t *table) bucket(print uint64) *bucket {
	key := t.key(print)
	if p := t.pages[key>>pageBits]; p != nil {
		return &p[key&(1<<pageBits-1)]
	}
	return nil
}

// least is the smallest of the buckets that a fingerprint is in if it is anywhere; nil if one of
// them does not exist.
func (all tables) least(print uint64) *bucket {
	var least *bucket
	for i := range all {
		b := all[i].bucket(print)
		if d := b.divided(); d != nil {
			b = d.least(print)
		}
		if b == nil {
			return nil
		}
		if least == nil || len(b.refs) < len(least.refs) {
			least = b
		}
	}
	return least
}

// insert puts fingerprint number ref into a bucket of each table; depth is how often what
// they are of was divided.
func (x *Index) insert(all tables, print uint64, ref uint32, depth int) {
	for i := range all {
		t := &all[i]
		key := t.key(print)
		p := &t.pages[key>>pageBits]
		if *p == nil {
			*p = new(page)
			x.bytes += uint64(unsafe.Sizeof(page{}))
			if depth == 0 {
				x.pages++
			}
		}
		b := &(*p)[key&(1<<pageBits-1)]
		if b.divided() == nil && len(b.refs) == cap(b.refs) {
			x.enlarge(b, depth)
		}
		if divided := b.divided(); divided != nil {
			x.insert(divided, print, ref, depth+1)
			b.crowd.count++
			continue
		}
		b.refs = append(b.refs, ref)
		if b.crowd != nil {
			b.crowd.folds = append(b.crowd.folds, fold(print))
		}
	}
}

// enlarge gives a full bucket room for a quarter more entries; or it divides it.
func (x *Index) enlarge(b *bucket, depth int) {
	n := len(b.refs)
	if n >= x.divideAt && depth < maxDepth && x.divide(b, depth) {
		return
	}
	room := n + n/4 + 2
	b.refs = append(make([]uint32, 0, room), b.refs...)
	x.bytes += 4 * uint64(cap(b.refs)-n)
	if n < x.foldAt {
		return
	}
	if b.crowd == nil {
		b.crowd = &crowd{}
		x.bytes += uint64(unsafe.Sizeof(crowd{}))
	}
	folds := make([]uint32, 0, room)
	for _, ref := range b.refs {
		folds = append(folds, fold(x.prints.at(ref)))
	}
	x.bytes += 4 * uint64(cap(folds)-cap(b.crowd.folds))
	b.crowd.folds = folds
}

// divide divides a bucket if a look-up then reads less than half of it.
func (x *Index) divide(b *bucket, depth int) bool {
	masks := x.differing(b.refs)
	if masks == nil {
		return false
	}
	all := newTables(masks)
	read := uint64(0) // by one look-up for each of the entries
	for i := range all {
		sizes := map[uint32]uint64{}
		for _, ref := range b.refs {
			sizes[all[i].key(x.prints.at(ref))]++
		}
		for _, n := range sizes {
			read += n * n
		}
	}
	if n := uint64(len(b.refs)); read > n*n/2 {
		return false
	}
	for _, ref := range b.refs {
		x.insert(all, x.prints.at(ref), ref, depth+1)
	}
	x.bytes -= 4 * uint64(cap(b.refs)+cap(b.folds()))
	if b.crowd == nil {
		x.bytes += uint64(unsafe.Sizeof(crowd{}))
	}
	b.refs, b.crowd = nil, &crowd{divided: all, count: len(b.refs)}
	return true
}

// differing are groups of the bits in which fingerprints differ, those first in which half of
// them differ from the other half. Nil: there are fewer bits than groups.
func (x *Index) differing(refs []uint32) []uint64 {
	type bit struct{ place, balance int }
	all := make([]bit, Bits)
	for i := range all {
		all[i] = bit{place: i, balance: -len(refs)}
	}
	for _, ref := range refs {
		for rest := x.prints.at(ref); rest != 0; rest &= rest - 1 {
			all[bits.TrailingZeros64(rest)].balance += 2
		}
	}
	for i := range all {
		all[i].balance = max(all[i].balance, -all[i].balance)
	}
	slices.SortStableFunc(all, func(a, b bit) int { return a.balance - b.balance })
	masks := make([]uint64, x.distance+1)
	width := min(maxWidth, bits.Len(uint(len(refs)))-3) // so that a bucket has some
	for i, b := range all[:min(Bits, width*len(masks))] {
		if b.balance == len(refs) {
			if i < len(masks) {
				return nil
			}
			break
		}
		masks[i%len(masks)] |= 1 << b.place
	}
	return masks
}
