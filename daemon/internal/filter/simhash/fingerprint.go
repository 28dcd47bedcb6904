// Package simhash makes fingerprints of texts, and finds those that are near a given one. The
// fingerprints of similar texts differ in few bits.
//
// A fingerprint is that of Charikar, Similarity Estimation Techniques from Rounding Algorithms,
// 2002: each feature of the text is hashed to 64 bits, and bit i of the fingerprint tells
// whether more features have bit i set than not. The search is that of Manku, Jain and Das
// Sarma, Detecting Near-Duplicates for Web Crawling, 2007.
package simhash

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Bits is the length of a fingerprint.
const Bits = 64

// Distance returns the number of bits in which two fingerprints differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }

// FeatureHash is a hash function for features. Only fingerprints made with the same one can be
// compared.
type FeatureHash string

// The feature hashes.
const (
	XXH3 FeatureHash = "xxh3" // the 64-bit XXH3 with seed 0
	MD5  FeatureHash = "md5"  // the last 8 bytes of MD5, big-endian, as in Python's simhash
)

// ParseFeatureHash returns the feature hash of that name.
func ParseFeatureHash(name string) (FeatureHash, error) {
	switch h := FeatureHash(name); h {
	case XXH3, MD5:
		return h, nil
	}
	return "", fmt.Errorf("%q: want xxh3 or md5", name)
}

func (h FeatureHash) sum(feature []byte) uint64 {
	if h == MD5 {
		sum := md5.Sum(feature)
		return binary.BigEndian.Uint64(sum[8:])
	}
	return xxh3.Hash(feature)
}

// Fingerprint returns the fingerprint of a text: of its 3-grams, each counted as often as it
// occurs. A text of fewer than three word characters is one feature, even if it is empty.
func (h FeatureHash) Fingerprint(text string) uint64 {
	var sum votes
	grams(text, func(feature []byte) { sum.add(h.sum(feature)) })
	return sum.majority()
}

// votes counts, for each of 64 bits, how many values have it set. The latest counts are kept as
// columns: bit i of ones, twos, ... are the digits of the count of bit i, so that a value costs
// two additions with carry on average and not 64.
type votes struct {
	digits  [8]uint64
	pending int // values counted in digits, below 1<<len(digits)
	counts  [Bits]uint64
	n       uint64
}

func (v *votes) add(value uint64) {
	for i := 0; value != 0; i++ {
		v.digits[i], value = v.digits[i]^value, v.digits[i]&value
	}
	v.n++
	if v.pending++; v.pending == 1<<len(v.digits)-1 {
		v.flush()
	}
}

func (v *votes) flush() {
	for i := range v.counts {
		for d, column := range v.digits {
			v.counts[i] += column >> i & 1 << d
		}
	}
	v.digits, v.pending = [8]uint64{}, 0
}

// majority returns the bits that more than half of the values have.
func (v *votes) majority() (value uint64) {
	v.flush()
	for i, count := range v.counts {
		if 2*count > v.n {
			value |= 1 << i
		}
	}
	return value
}
