package scaling

import (
	"math/bits"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// An item's bits are scattered over its layer, so a large layer costs a cache miss for each of them.
// Their places are found, and fetched, for many keys at a time before the first bit is looked at,
// and for the layer that is added to before the lock is taken.

const (
	// chunk is how many keys are fetched and then probed: the lines of their bits, some 15 for a
	// key, stay in the second-level cache, and the lock is taken once for all of them.
	chunk = 64
	// firstProbes is how many bits of an item are looked at, in a layer that may well not have it,
	// before the others are fetched. Half of all bits are set in a full layer, fewer in others.
	firstProbes = 2
)

// place is at mod the number of bits, with a multiplication in place of the division: the
// estimated quotient is right or one too small, as at * (2^64 mod bits) < bits * 2^64.
func (l *layer) place(at uint64) uint64 {
	q, _ := bits.Mul64(at, l.inverse)
	if at -= q * l.size; at >= l.size {
		at -= l.size
	}
	return at
}

// appendPlaces appends the places of an item's bits from the one to the other.
func (l *layer) appendPlaces(dst []uint64, key bloom.Hash, from, to uint32) []uint64 {
	at := key.Hi + uint64(from)*key.Lo
	for range to - from {
		dst = append(dst, l.place(at))
		at += key.Lo
	}
	return dst
}

// all reports whether all bits at places are set. It looks at each of them: that they were fetched
// costs more than to look, and a wrong guess of the processor more than both.
func (l *layer) all(places []uint64) bool {
	set := byte(1)
	for _, n := range places {
		set &= l.bits[n>>3] >> (n & 7)
	}
	return set == 1
}

func (l *layer) setAll(places []uint64) {
	for _, n := range places {
		l.bits[n>>3] |= 1 << (n & 7)
	}
	l.items++
}

// scratch is the working memory for one chunk of keys.
type scratch struct {
	places []uint64 // of keys, one after the other
	at     []int    // which keys
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// ask clears fresh[i] for the keys that the layer has, of those that are fresh. Nobody may add to
// the layer meanwhile.
func (s *scratch) ask(l *layer, keys []bloom.Hash, fresh []bool) {
	first := min(firstProbes, l.hashes)
	s.places, s.at = s.places[:0], s.at[:0]
	for i, key := range keys {
		if fresh[i] {
			s.places, s.at = l.appendPlaces(s.places, key, 0, first), append(s.at, i)
		}
	}
	fetch(l.bits, s.places)
	left := s.at[:0]
	for j, i := range s.at {
		if l.all(s.places[j*int(first):][:first]) {
			left = append(left, i)
		}
	}
	s.places = s.places[:0]
	for _, i := range left {
		s.places = l.appendPlaces(s.places, keys[i], first, l.hashes)
	}
	fetch(l.bits, s.places)
	rest := int(l.hashes - first)
	for j, i := range left {
		if l.all(s.places[j*rest:][:rest]) {
			fresh[i] = false
		}
	}
}

// begin sets fresh[i] to whether none of the closed layers, to which nobody adds any more, has
// keys[i], and leaves in s the places of those keys in the last of layers, which are fetched.
func (s *scratch) begin(layers []*layer, keys []bloom.Hash, fresh []bool) {
	for i := range keys {
		fresh[i] = true
	}
	last := len(layers) - 1
	for i := last - 1; i >= 0; i-- {
		s.ask(layers[i], keys, fresh)
	}
	l := layers[last]
	s.places = s.places[:0]
	for i, key := range keys {
		if fresh[i] {
			s.places = l.appendPlaces(s.places, key, 0, l.hashes)
		}
	}
	fetch(l.bits, s.places)
}
