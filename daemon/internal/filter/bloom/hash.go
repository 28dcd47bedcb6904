package bloom

import "github.com/zeebo/xxh3"

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
