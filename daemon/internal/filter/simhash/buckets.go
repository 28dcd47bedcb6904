package simhash

import (
	"math/bits"
	"slices"
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
	maxWidth   = 16      // bits of a group
	foldAt     = 1 << 9  // entries of a bucket, from which on it has folds
	divideAt   = 1 << 15 // from which on it may be divided
	maxDepth   = 2       // divisions on the way to a bucket, beside the first
	regionBits = 6       // of a group: an index has a region for each value of its first ones
)

// tables have the fingerprints of an index, or of a bucket that was divided, by groups of bits.
type tables struct {
	groups  []group
	shift   uint8     // a bucket is in the region of its bits above these
	regions []*region // nil until there is an entry
	foldAt  uint32
}

// group is a group of bits: a table has a bucket for each value of it.
type group struct {
	mask  uint64
	low   uint8   // if the bits follow each other: the lowest
	order []uint8 // if they do not: all
}

// division is what a divided bucket has.
type division struct {
	tables
	count int // of its fingerprints
}

// view is what is in a bucket.
type view struct {
	refs, folds []uint32  // folds: of a large one
	divided     *division // in place of both
}

// len is how many entries it has, be it divided or not.
func (v view) len() int {
	if v.divided != nil {
		return v.divided.count
	}
	return len(v.refs)
}

// fold makes 32 bits of a fingerprint. Folds differ in no more bits than the fingerprints do, so
// a reader of a large bucket looks for a fingerprint, which is somewhere in memory, only where the
// folds are near each other.
func fold(print uint64) uint32 { return uint32(print>>32) ^ uint32(print) }

// newTables are empty ones for groups of bits, with a region for each value of the first regionBits.
func newTables(masks []uint64, regionBits, foldAt int) tables {
	all := tables{groups: make([]group, len(masks)), foldAt: uint32(foldAt)}
	widest := 0
	for i, mask := range masks {
		low, width := bits.TrailingZeros64(mask), bits.OnesCount64(mask)
		g := group{mask: mask, low: uint8(low)}
		if mask>>low != 1<<width-1 {
			for rest := mask; rest != 0; rest &= rest - 1 {
				g.order = append(g.order, uint8(bits.TrailingZeros64(rest)))
			}
		}
		all.groups[i] = g
		widest = max(widest, width)
	}
	all.shift = uint8(max(0, widest-regionBits))
	all.regions = make([]*region, 1<<(widest-int(all.shift)))
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
func (g *group) key(print uint64) uint32 {
	if g.order == nil {
		return uint32(print & g.mask >> g.low)
	}
	key := uint32(0)
	for i, bit := range g.order {
		key |= uint32(print>>bit&1) << i
	}
	return key
}

// place is where the bucket of a fingerprint is in table i: which of the buckets of which region.
func (t *tables) place(i int, print uint64) (region **region, place int) {
	key := int(t.groups[i].key(print))
	return &t.regions[key>>t.shift], i<<t.shift | key&(1<<t.shift-1)
}

// bucket is that of a fingerprint in table i.
func (x *Index) bucket(t *tables, i int, print uint64) view {
	r, place := t.place(i, print)
	if *r == nil {
		return view{}
	}
	switch b := (*r).buckets[place]; b.n {
	case 0:
		return view{}
	case divided:
		return view{divided: x.divisions[b.at]}
	default:
		refs, folds := (*r).entries(b)
		return view{refs: refs, folds: folds}
	}
}

// least is the smallest of the buckets that a fingerprint is in if it is anywhere; empty if it is
// not.
func (x *Index) least(t *tables, print uint64) (least view) {
	for i := range t.groups {
		v := x.bucket(t, i, print)
		if v.divided != nil {
			v = x.least(&v.divided.tables, print)
		}
		if len(v.refs) == 0 {
			return view{}
		}
		if least.refs == nil || len(v.refs) < len(least.refs) {
			least = v
		}
	}
	return least
}

// insert puts fingerprint number ref into a bucket of each table; depth is how often what
// they are of was divided.
func (x *Index) insert(t *tables, print uint64, ref uint32, depth int) error {
	for i := range t.groups {
		r, place := t.place(i, print)
		if *r == nil {
			*r = &region{buckets: make([]bucket, len(t.groups)<<t.shift), foldAt: t.foldAt}
			x.bytes += (*r).bytes()
		}
		b := &(*r).buckets[place]
		if b.n != divided && room(b.n) == b.n {
			if err := x.enlarge(*r, place, depth); err != nil {
				return err
			}
		}
		if b.n != divided {
			(*r).append(b, ref, print)
			continue
		}
		d := x.divisions[b.at]
		if err := x.insert(&d.tables, print, ref, depth+1); err != nil {
			return err
		}
		d.count++
	}
	return nil
}

// enlarge gives a full bucket room for a quarter more entries; or it divides it.
func (x *Index) enlarge(r *region, place, depth int) error {
	if int(r.buckets[place].n) >= x.divideAt && depth < maxDepth {
		if done, err := x.divide(r, place, depth); done || err != nil {
			return err
		}
	}
	was := r.bytes()
	err := r.enlarge(place, &x.prints)
	x.bytes += r.bytes() - was
	if b := &r.buckets[place]; int(b.n) >= x.divideAt/2 && depth < maxDepth {
		x.large[b] = true
	}
	return err
}

// divide divides a bucket if a look-up then reads less than half of it.
func (x *Index) divide(r *region, place, depth int) (done bool, err error) {
	b := &r.buckets[place]
	refs, _ := r.entries(*b)
	masks := x.differing(refs)
	if masks == nil {
		return false, nil
	}
	d := &division{tables: newTables(masks, 0, x.foldAt), count: len(refs)}
	read := uint64(0) // by one look-up for each of the entries
	for i := range d.groups {
		sizes := map[uint32]uint64{}
		for _, ref := range refs {
			sizes[d.groups[i].key(x.prints.at(ref))]++
		}
		for _, n := range sizes {
			read += n * n
		}
	}
	if n := uint64(len(refs)); read > n*n/2 {
		return false, nil
	}
	x.divisions = append(x.divisions, d)
	number := uint32(len(x.divisions) - 1) // those within it follow
	for _, ref := range refs {
		if err := x.insert(&d.tables, x.prints.at(ref), ref, depth+1); err != nil {
			return false, err
		}
	}
	r.leave(*b)
	*b = bucket{at: number, n: divided}
	delete(x.large, b)
	return true, nil
}

// divisionWidth is of how many bits the groups of a division of n entries are: so that a bucket has some.
func divisionWidth(n int) int { return min(maxWidth, bits.Len(uint(n))-3) }

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
	width := divisionWidth(len(refs))
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
