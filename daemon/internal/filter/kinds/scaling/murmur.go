package scaling

import (
	"encoding/binary"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// firstSeed is that of an item's first hash; the first hash is that of the second.
const firstSeed = 0xc6a4a7935bd1e995

// hash returns the two hashes from which an item's bits follow: a in Hi, b in Lo.
func hash(item []byte) bloom.Hash {
	a := murmur64A(item, firstSeed)
	return bloom.Hash{Hi: a, Lo: murmur64A(item, a)}
}

// murmur64A is MurmurHash2, the variant of 64 bits for 64-bit machines, by Austin Appleby, who
// has placed it in the public domain.
func murmur64A(data []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(data))*m
	for ; len(data) >= 8; data = data[8:] {
		k := binary.LittleEndian.Uint64(data) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(data) > 0 {
		var rest [8]byte
		copy(rest[:], data)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * m
	}
	h ^= h >> r
	h *= m
	return h ^ h>>r
}
