package bloom

import "math/bits"

// probes are the loops over the keys of a chunk, for one layout. The caller holds the locks of the
// blocks.
type probes struct {
	// addKeys sets the bits of keys, and fresh[i] to whether one of keys[i] was 0. It returns the
	// number of fresh keys and the number of bits that it turned from 0 to 1.
	addKeys func(blocks []block, keys []Hash, fresh []bool) (n, set int)
	// hasKeys sets fresh[i] to whether a bit of keys[i] is 0.
	hasKeys func(blocks []block, keys []Hash, fresh []bool)
	// newInAll sets fresh[i] to whether none of the layers, at least one, has keys[i].
	newInAll func(layers [][]block, keys []Hash, fresh []bool)
}

// portable are the probes in Go: of one bit in each word, and of pairs.
var (
	portable      = probes{addKeys, hasKeys, newInAll}
	portablePairs = probes{addPairs, hasPairs, newInAllPairs}
)

func (h Header) probes() *probes {
	if h.pairs {
		return &fastestPairs
	}
	return &fastest
}

// halves has the highest of the six bits that say where a bit is in each word.
const halves = 0x820820820820

// pair makes two of Lo for an item that sets a bit in each half of each word: one that says where
// they are in the lower halves, and one for the upper halves. Both are made of 48 bits of Lo, so
// that these alone say where the bits of an item are. A product's upper bits depend on all bits of its
// factors; the multiplier is 2^64 divided by the golden ratio.
func pair(lo uint64) (lower, upper uint64) {
	return lo &^ halves, (lo&loMask)*0x9e3779b97f4a7c15>>16 | halves
}

func addKeys(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	for i, key := range keys {
		turned := blocks[blockOf(key, uint64(len(blocks)))].add(key.Lo)
		if fresh[i] = turned > 0; turned > 0 {
			n++
		}
		set += turned
	}
	return n, set
}

func addPairs(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	for i, key := range keys {
		b := &blocks[blockOf(key, uint64(len(blocks)))]
		lower, upper := pair(key.Lo)
		turned := b.add(lower) + b.add(upper)
		if fresh[i] = turned > 0; turned > 0 {
			n++
		}
		set += turned
	}
	return n, set
}

func hasKeys(blocks []block, keys []Hash, fresh []bool) {
	for i, key := range keys {
		fresh[i] = !blocks[blockOf(key, uint64(len(blocks)))].has(key.Lo)
	}
}

func hasPairs(blocks []block, keys []Hash, fresh []bool) {
	for i, key := range keys {
		b := &blocks[blockOf(key, uint64(len(blocks)))]
		lower, upper := pair(key.Lo)
		fresh[i] = !b.has(lower) || !b.has(upper)
	}
}

func newInAll(layers [][]block, keys []Hash, fresh []bool) {
	for i, key := range keys {
		fresh[i] = true
		for _, blocks := range layers {
			fresh[i] = fresh[i] && !blocks[blockOf(key, uint64(len(blocks)))].has(key.Lo)
		}
	}
}

func newInAllPairs(layers [][]block, keys []Hash, fresh []bool) {
	for i, key := range keys {
		fresh[i] = true
		lower, upper := pair(key.Lo)
		for _, blocks := range layers {
			b := &blocks[blockOf(key, uint64(len(blocks)))]
			fresh[i] = fresh[i] && !(b.has(lower) && b.has(upper))
		}
	}
}

// add sets one bit in each word: bits 6i to 6i+5 of lo say which one in word i. It returns
// how many of these bits were 0.
func (b *block) add(lo uint64) int {
	turned := uint64(0)
	for i := range b {
		at := lo & (wordBits - 1)
		turned += ^b[i] >> at & 1
		b[i] |= 1 << at
		lo >>= 6
	}
	return int(turned)
}

func (b *block) has(lo uint64) bool { return b.missing(lo) == 0 }

// missing returns the words, one bit for each, in which the bit is 0.
func (b *block) missing(lo uint64) uint16 {
	var words uint16
	for w := range b {
		words |= uint16(^b[w]>>(lo&(wordBits-1))&1) << w
		lo >>= 6
	}
	return words
}

// What follows is for a store that keeps the bits elsewhere and a copy of them in a Map.

// Missing sets missing[i] to those bits of keys[i] that are 0, as a number of h.K() bits in the
// order of [Header.Place]; 0 means that the key was seen. len(missing) must be len(keys).
func (m *Map) Missing(keys []Hash, missing []uint16) {
	_ = missing[:len(keys)]
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		m.ahead.Prefetch(keys[start:end])
		m.mu.RLock()
		for i, key := range keys[start:end] {
			b := &m.blocks[blockOf(key, uint64(len(m.blocks)))]
			if m.header.pairs {
				lower, upper := pair(key.Lo)
				missing[start+i] = b.missing(lower) | b.missing(upper)<<blockWords
			} else {
				missing[start+i] = b.missing(key.Lo)
			}
		}
		m.mu.RUnlock()
	}
}

// AllMissing is what Missing says of a key of which no bit is known.
func (h Header) AllMissing() uint16 { return uint16(1<<h.K() - 1) }

// Place returns where the bits of a key are: in which stripe, and at which bits of the
// stripe, counted as Redis counts, from the highest bit of each byte. The first h.K() count.
func (h Header) Place(key Hash) (stripe int, at [2 * k]uint32) {
	const blocksPerStripe = StripeBytes / blockBytes
	b := blockOf(key, h.Blocks)
	base := uint32(b%blocksPerStripe) * blockBytes * 8
	lo, upper := key.Lo, uint64(0)
	if h.pairs {
		lo, upper = pair(key.Lo)
	}
	for i := range at[:h.K()] {
		if i == k {
			lo = upper
		}
		in := uint32(lo & (wordBits - 1))
		at[i] = base + uint32(i%k)*wordBits + in&^7 + 7 - in&7
		lo >>= 6
	}
	return int(b / blocksPerStripe), at
}

// blockOf reduces the hash to a block: the high word of a 128-bit product, which
// spreads as evenly as the hash does and needs no power of two (Lemire 2016).
func blockOf(key Hash, blocks uint64) uint64 {
	b, _ := bits.Mul64(key.Hi, blocks)
	return b
}
