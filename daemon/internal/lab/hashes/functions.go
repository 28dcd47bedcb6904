// Package hashes measures hash functions: how fast they are, and how good inside a Bloom filter.
// It has those of the General Purpose Hash Function Algorithms, which older filters use, those
// of newer filters, and ours.
//
// None of them is used by a filter of the daemon, except XXH3.
package hashes

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"hash/fnv"
	"math/bits"

	"github.com/twmb/murmur3"
	"github.com/zeebo/xxh3"
)

// Function is a hash function, and how a Bloom filter derives an item's positions from it.
type Function struct {
	Name string
	Bits int // of Sum
	Sum  func(item []byte) uint64
	// salted is a family of other functions, by their number i; nil: a filter computes all
	// positions from Sum, see positions.
	salted func(i int, item []byte) uint64
}

// All lists the functions.
func All() []Function {
	narrow := func(name string, sum func([]byte) uint32) Function {
		return Function{Name: name, Bits: 32, Sum: func(item []byte) uint64 { return uint64(sum(item)) }}
	}
	return []Function{
		narrow("JS", js),
		narrow("PJW", pjw),
		narrow("ELF", elf),
		narrow("BKDR", bkdr),
		narrow("SDBM", sdbm),
		narrow("DJB", djb),
		narrow("DEK", dek),
		narrow("BP", bp),
		narrow("FNV-1a", fnv1a),
		narrow("AP", ap),
		{ // Sum has one of its seeds, to measure the time
			Name: "multiplicative", Bits: 64, Sum: func(item []byte) uint64 { return multiplicative(5, item) },
			salted: func(i int, item []byte) uint64 { return multiplicative(uint64(i), item) },
		},
		{Name: "salted MD5", Bits: 64, Sum: func(item []byte) uint64 { return saltedMD5(0, item) }, salted: saltedMD5},
		{Name: "salted SHA-1", Bits: 64, Sum: func(item []byte) uint64 { return saltedSHA1(0, item) }, salted: saltedSHA1},
		{Name: "MurmurHash3", Bits: 64, Sum: murmur3.Sum64},
		{Name: "XXH3", Bits: 64, Sum: xxh3.Hash},
	}
}

// positions sets at to the bits that an item has in a map of 2^width bits. A function without
// salts yields them by double hashing (Kirsch, Mitzenmacher 2006): the hash, plus i times what mix
// makes of it. So the measurement shows what the function itself loses, and not the effect of the
// few bits that it has.
func (f Function) positions(item []byte, width int, at []uint64) {
	mask := uint64(1)<<width - 1
	if f.salted != nil {
		for i := range at {
			at[i] = f.salted(i, item) & mask
		}
		return
	}
	h := f.Sum(item)
	step := mix(h)
	for i := range at {
		at[i] = h & mask
		h += step
	}
}

// mix spreads 64 bits, as the last step of MurmurHash3 does; its result is odd, so that it has no
// common factor with a power of two.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33 | 1
}

// The functions of Arash Partow's General Purpose Hash Function Algorithms, by their authors'
// well-known recurrences: each takes byte after byte into 32 bits.

// js is Justin Sobel's.
func js(item []byte) uint32 {
	h := uint32(1315423911)
	for _, c := range item {
		h ^= h<<5 + uint32(c) + h>>2
	}
	return h
}

// pjw is Peter J. Weinberger's.
func pjw(item []byte) uint32 {
	h := uint32(0)
	for _, c := range item {
		h = h<<4 + uint32(c)
		if top := h & 0xf000_0000; top != 0 {
			h = (h ^ top>>24) & 0x0fff_ffff
		}
	}
	return h
}

// elf is that of the object files of Unix, a variant of pjw with the same values.
func elf(item []byte) uint32 {
	h := uint32(0)
	for _, c := range item {
		h = h<<4 + uint32(c)
		top := h & 0xf000_0000
		h ^= top >> 24
		h &^= top
	}
	return h
}

// bkdr is that of Brian Kernighan and Dennis Ritchie, with the seed 131.
func bkdr(item []byte) uint32 {
	h := uint32(0)
	for _, c := range item {
		h = h*131 + uint32(c)
	}
	return h
}

// sdbm is that of the database of that name: 65599 times what was before.
func sdbm(item []byte) uint32 {
	h := uint32(0)
	for _, c := range item {
		h = h*65599 + uint32(c)
	}
	return h
}

// djb is Daniel J. Bernstein's.
func djb(item []byte) uint32 {
	h := uint32(5381)
	for _, c := range item {
		h = h*33 + uint32(c)
	}
	return h
}

// dek is Donald E. Knuth's.
func dek(item []byte) uint32 {
	h := uint32(len(item))
	for _, c := range item {
		h = bits.RotateLeft32(h, 5) ^ uint32(c)
	}
	return h
}

// bp depends only on the last five bytes.
func bp(item []byte) uint32 {
	h := uint32(0)
	for _, c := range item {
		h = h<<7 ^ uint32(c)
	}
	return h
}

// ap is Arash Partow's.
func ap(item []byte) uint32 {
	h := uint32(0xaaaa_aaaa)
	for i, c := range item {
		if i%2 == 0 {
			h ^= h<<7 ^ uint32(c)*(h>>3)
		} else {
			h ^= ^(h<<11 + (uint32(c) ^ h>>5))
		}
	}
	return h
}

func fnv1a(item []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(item) // never fails
	return h.Sum32()
}

// multiplicative is what scrapy-redis-bloomfilter computes for each of its seeds, which are 0, 1,
// 2 and so on: what was before, plus seed times it, plus the next character. With an odd seed
// each character moves those before it out of the lower bits, which are all that it takes.
func multiplicative(seed uint64, item []byte) uint64 {
	h := uint64(0)
	for _, c := range item {
		h += seed*h + uint64(c)
	}
	return h
}

// saltedMD5 is the first half of the MD5 of i, as four bytes, followed by the item.
func saltedMD5(i int, item []byte) uint64 {
	var b [256]byte
	sum := md5.Sum(append(binary.LittleEndian.AppendUint32(b[:0], uint32(i)), item...))
	return binary.LittleEndian.Uint64(sum[:])
}

// saltedSHA1 is the same of SHA-1.
func saltedSHA1(i int, item []byte) uint64 {
	var b [256]byte
	sum := sha1.Sum(append(binary.LittleEndian.AppendUint32(b[:0], uint32(i)), item...))
	return binary.LittleEndian.Uint64(sum[:])
}
