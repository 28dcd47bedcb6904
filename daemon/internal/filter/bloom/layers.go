package bloom

import (
	"math"
	"math/bits"
	"time"
)

// A map that grows is a scalable Bloom filter (Almeida, Baquero, Preguiça, Hutchison:
// Scalable Bloom Filters, 2007). It consists of layers, each a split-block map of its own. New items
// go to the last layer; an item is new only if no layer has it. All layers have the same seed: the
// sum of their rates is a bound even if the errors of the layers are not independent.
//
// The first layer has the capacity and half of the error rate, and each further one a fifth of what
// the layers before it have left of the rate. At first each layer is made for about half as many
// items as there are before it, so that little of it is empty. The last ones are made for as many, as
// soon as mostItems could not be reached otherwise.
//
// At small rates an item sets a pair of bits in each word of its block, one in each half, 16 in all:
// then the same rate takes fewer bits.
//
// Bytes of an item at 0.0001 for a capacity of 10 million, where the map is grown tenfold, on average
// on the way there, and at most, which is when a layer has just been added: 4.2, 4.7 and 6.2. With a
// bit in each word 5.2, 5.5 and 7.5. If layers double from the fifth on, 4.2, 5.0 and 8.3.
//
// The sizes of the layers are stored when the map is made, as shares of each other, so that no
// later version and no other processor computes them differently.

// MaxLayers is the most layers that a map can have.
const MaxLayers = 16

// mostItems is how many items a map holds with all of its layers, at least: 8,589 million, or 300
// times its capacity if that is more.
const mostItems = secondLayer << (MaxLayers - 1)

// smallStep is by how many hundredths of what there is before it a small layer adds. Six of them
// make a map ten times as large.
const smallStep = 47

// secondLayer is for how many items the second layer is made at least, and each further one for
// twice as many: so a map of a tiny first capacity, too, can grow to mostItems. The
// size of a layer is at most 16 times that of the one before.
const secondLayer = 1 << 18

// growthUnit is the denominator of the shares in a header.
const growthUnit = 4096

const maxBlocks = math.MaxInt64 / blockBytes

// NewGrowingHeader is NewHeader for a map that grows. It has one layer. Items set pairs of bits if
// that takes fewer bits in the layers after the first, and mayPair: each bit may have a price of its
// own, as in a store where it is a question to a server.
func NewGrowingHeader(capacity uint64, errorRate float64, mayPair bool, seed uint64, created time.Time) (Header, error) {
	h, err := NewHeader(capacity, errorRate, seed, created)
	if err != nil {
		return Header{}, err
	}
	h.Layers, h.fifths = 1, true
	second := h.layerRate(1)
	h.pairs = mayPair && loads.of(second, 2*k) > loads.of(second, k)
	h.Blocks = BlocksFor(capacity, h.layerRate(0), h.K())
	total := capacity
	for i := range h.growth {
		size := max(total, secondLayer<<i)
		if small := total * smallStep / 100; (total+small)<<(len(h.growth)-1-i) >= mostItems {
			size = small
		}
		total += size
		next := BlocksFor(size, h.layerRate(i+1), h.K())
		hi, lo := bits.Mul64(next, growthUnit)
		share, rest := bits.Div64(hi, lo, h.blocksOf(i))
		if rest > 0 {
			share++
		}
		h.growth[i] = uint16(min(share, math.MaxUint16))
	}
	return h, nil
}

// Layer describes layer i of a map that grows as a map of its own. The map may not have the
// layer yet. The layer's error rate may be less than MinErrorRate.
func (h Header) Layer(i int) Header {
	l := h
	l.Layers, l.fifths, l.growth = 0, false, [len(h.growth)]uint16{}
	l.Blocks, l.ErrorRate = h.blocksOf(i), h.layerRate(i)
	if i > 0 {
		l.Capacity = 0
		if !h.fifths {
			l.Capacity = h.Capacity << i
		}
		l.Capacity = l.Holds()
	}
	return l
}

// NewLayer is New for layer i alone of a map that grows.
func NewLayer(h Header, i int) (*Map, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	return makeMap(h.Layer(i))
}

// SameBits reports whether a bit means the same in both maps. A map that grows may have more
// layers than the other.
func (h Header) SameBits(o Header) bool {
	return h.Generation == o.Generation && h.Seed == o.Seed && h.Blocks == o.Blocks && h.fifths == o.fifths && h.pairs == o.pairs && h.growth == o.growth
}

// Version returns the version of the format.
func (h Header) Version() uint32 {
	switch {
	case h.Layers == 0:
		return Version
	case h.pairs:
		return VersionPairs
	case h.fifths:
		return VersionFifths
	}
	return VersionGrowing
}

// layers returns the number of layers; a map of fixed size has one.
func (h Header) layers() int { return max(int(h.Layers), 1) }

func (h Header) layerRate(i int) float64 {
	if !h.fifths {
		return math.Ldexp(h.ErrorRate, -i-1)
	}
	rate := h.ErrorRate / 2
	if i > 0 {
		rate /= 5
	}
	for range i - 1 {
		rate *= 4
		rate /= 5
	}
	return rate
}

// blocksOf returns how many blocks layer i has. It returns 0 for shares that make no sense, such
// as those that give more blocks than there can be.
func (h Header) blocksOf(i int) uint64 {
	blocks := h.Blocks
	for _, share := range h.growth[:i] {
		hi, lo := bits.Mul64(blocks, uint64(share))
		lo, carry := bits.Add64(lo, growthUnit-1, 0)
		if hi += carry; hi >= growthUnit {
			return 0
		}
		blocks, _ = bits.Div64(hi, lo, growthUnit)
	}
	return blocks
}
