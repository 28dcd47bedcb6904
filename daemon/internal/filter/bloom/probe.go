package bloom

// This file has what a store needs that keeps the bits elsewhere and a copy of them in a Map.

// Missing sets missing[i] to the words of keys[i]'s block, one bit per word, in which the
// key's bit is not set; 0 means that the key was seen. len(missing) must be len(keys).
func (m *Map) Missing(keys []Hash, missing []uint8) {
	_ = missing[:len(keys)]
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		m.ahead.Prefetch(keys[start:end])
		m.mu.RLock()
		for i, key := range keys[start:end] {
			missing[start+i] = m.blocks[blockOf(key, uint64(len(m.blocks)))].missing(key.Lo)
		}
		m.mu.RUnlock()
	}
}

func (b *block) missing(lo uint64) uint8 {
	var words uint8
	for w := range b {
		words |= uint8(^b[w]>>(lo&(wordBits-1))&1) << w
		lo >>= 6
	}
	return words
}

// Place returns where the bits of a key are: in which stripe, and at which bits of the
// stripe, counted as Redis counts, from the highest bit of each byte.
func (h Header) Place(key Hash) (stripe int, bits [k]uint32) {
	const blocksPerStripe = StripeBytes / blockBytes
	b := blockOf(key, h.Blocks)
	base := uint32(b%blocksPerStripe) * blockBytes * 8
	lo := key.Lo
	for w := range bits {
		at := uint32(lo & (wordBits - 1))
		bits[w] = base + uint32(w)*wordBits + at&^7 + 7 - at&7
		lo >>= 6
	}
	return int(b / blocksPerStripe), bits
}
