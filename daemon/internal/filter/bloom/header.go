package bloom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"time"
)

// HeaderSize is the length of an encoded header in bytes.
const HeaderSize = 128

// Versions of the format, in the header: of maps of fixed size, of maps that grow as earlier
// versions made them, of maps that grow, and of those in which an item sets a pair of bits, one
// in each half of each word.
const (
	Version        = 1
	VersionGrowing = 2
	VersionFifths  = 3
	VersionPairs   = 4
)

var magic = [8]byte{'U', 'R', 'I', 'B', 'L', 'O', 'O', 'M'}

// castagnoli is the polynomial of all checksums here; processors have it built in.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is wrapped by every error that means damaged bytes.
var ErrCorrupt = errors.New("corrupt bit-map")

// Header says what a bit-map is. As bytes, all integers little-endian:
//
//	offset  size  field
//	     0     8  magic "URIBLOOM"
//	     8     4  version, 1 to 4
//	    12     4  k, 8; 16 in version 4
//	    16     8  blocks of 64 bytes
//	    24     8  capacity, items
//	    32     8  error rate, IEEE 754 double
//	    40     8  seed
//	    48     8  generation
//	    56     8  created, nanoseconds since 1970 UTC
//	    64     4  layout, 0: one bit in each of a block's eight words; 1, in version 4: one in
//	              each half of them
//	    68     4  layers, 1 to 16; 0 in version 1
//	    72    30  growth: for each of the layers 1 to 15 its size, in 4096ths of that
//	              of the layer before it; 0 in version 1
//	   102    22  zero
//	   124     4  CRC-32C of bytes 0 to 123
//
// The version is 1, or 2 to 4 of a map that grows; then blocks, capacity and error rate
// are as they were asked for, and Layer says what each layer has.
type Header struct {
	Blocks     uint64 // of the first layer
	Capacity   uint64 // items at which ErrorRate still holds
	ErrorRate  float64
	Seed       uint64 // secret: whoever knows it can make items collide
	Generation uint64 // grows when the map is emptied; bits of two generations never mix
	Created    time.Time
	Layers     uint32 // how many there are; 0: the map does not grow
	fifths     bool   // how the layers share the error rate; versions 3 and 4
	pairs      bool   // an item sets a bit in each half of a word, and not one in each word; version 4
	growth     [MaxLayers - 1]uint16
}

// NewHeader sizes a map of the first generation for capacity items at errorRate.
func NewHeader(capacity uint64, errorRate float64, seed uint64, created time.Time) (Header, error) {
	if err := ValidCapacity(capacity, errorRate); err != nil {
		return Header{}, err
	}
	return Header{
		Blocks:     BlocksFor(capacity, errorRate, k),
		Capacity:   capacity,
		ErrorRate:  errorRate,
		Seed:       seed,
		Generation: 1,
		Created:    created.UTC().Truncate(0),
	}, nil
}

// Bytes is the size of the bits, of all layers.
func (h Header) Bytes() uint64 {
	all := uint64(0)
	for i := range h.layers() {
		all += h.blocksOf(i) * blockBytes
	}
	return all
}

func (h Header) validate() error {
	if h.Layers > MaxLayers {
		return fmt.Errorf("bit-map of %d layers: want at most %d", h.Layers, MaxLayers)
	}
	all := uint64(0)
	for i := range h.layers() {
		blocks := h.blocksOf(i)
		if all += blocks; blocks < 1 || blocks > maxBlocks || all > maxBlocks {
			return fmt.Errorf("bit-map of %d blocks in layer %d: out of range", blocks, i)
		}
	}
	return ValidCapacity(h.Capacity, h.ErrorRate)
}

// MarshalBinary encodes the header in HeaderSize bytes. The error is always nil.
func (h Header) MarshalBinary() ([]byte, error) {
	b := make([]byte, HeaderSize)
	le := binary.LittleEndian
	copy(b, magic[:])
	le.PutUint32(b[8:], h.Version())
	le.PutUint32(b[12:], uint32(h.K()))
	le.PutUint64(b[16:], h.Blocks)
	le.PutUint64(b[24:], h.Capacity)
	le.PutUint64(b[32:], math.Float64bits(h.ErrorRate))
	le.PutUint64(b[40:], h.Seed)
	le.PutUint64(b[48:], h.Generation)
	le.PutUint64(b[56:], uint64(h.Created.UnixNano()))
	if h.pairs {
		le.PutUint32(b[64:], 1)
	}
	le.PutUint32(b[68:], h.Layers)
	for i, ratio := range h.growth {
		le.PutUint16(b[72+2*i:], ratio)
	}
	le.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
	return b, nil
}

// UnmarshalBinary decodes what MarshalBinary made. It wraps ErrCorrupt, except for a
// sound header of another version, which is named as such.
func (h *Header) UnmarshalBinary(b []byte) error {
	le := binary.LittleEndian
	if len(b) < HeaderSize {
		return fmt.Errorf("%w: header of %d bytes, want %d", ErrCorrupt, len(b), HeaderSize)
	}
	if !bytes.Equal(b[:8], magic[:]) {
		return fmt.Errorf("%w: header begins with %q, want %q", ErrCorrupt, b[:8], magic[:])
	}
	if got, want := crc32.Checksum(b[:124], castagnoli), le.Uint32(b[124:]); got != want {
		return fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	version := le.Uint32(b[8:])
	if version < Version || version > VersionPairs {
		return fmt.Errorf("bit-map format %d: this version reads the formats %d to %d; use a newer urifilter", version, Version, VersionPairs)
	}
	pairs := version == VersionPairs
	wantK, wantLayout := uint32(k), uint32(0)
	if pairs {
		wantK, wantLayout = 2*k, 1
	}
	if kk, layout := le.Uint32(b[12:]), le.Uint32(b[64:]); kk != wantK || layout != wantLayout {
		return fmt.Errorf("bit-map of format %d with k=%d, layout %d: this version reads k=%d, layout %d; use a newer urifilter", version, kk, layout, wantK, wantLayout)
	}
	*h = Header{
		Blocks:     le.Uint64(b[16:]),
		Capacity:   le.Uint64(b[24:]),
		ErrorRate:  math.Float64frombits(le.Uint64(b[32:])),
		Seed:       le.Uint64(b[40:]),
		Generation: le.Uint64(b[48:]),
		Created:    time.Unix(0, int64(le.Uint64(b[56:]))).UTC(),
		Layers:     le.Uint32(b[68:]),
		fifths:     version >= VersionFifths,
		pairs:      pairs,
	}
	for i := range h.growth {
		h.growth[i] = le.Uint16(b[72+2*i:])
	}
	if h.Version() != version || h.Layers == 0 && h.growth != [len(h.growth)]uint16{} {
		return fmt.Errorf("%w: format %d with %d layers", ErrCorrupt, version, h.Layers)
	}
	if err := h.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// A map that grows is a scalable Bloom filter (Almeida, Baquero, Preguiça, Hutchison:
// Scalable Bloom Filters, 2007). It consists of layers, each a split-block map of its own. New items
// go to the last layer; an item is new only if no layer has it. All layers have the same seed: the
// sum of their rates is a bound even if the errors of the layers are not independent.
//
// The first layer has the capacity and half of the error rate, and each further one a fifth of what
// the layers before it have left of the rate. At first each layer is made for about half as many
// items as there are before it, so that little of it is empty. The last ones are made for as many, as
// soon as maxItems could not be reached otherwise.
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

// maxItems is how many items a map holds with all of its layers: about 8,589 million, or 300 times
// its capacity if that is more.
const maxItems = secondLayer << (MaxLayers - 1)

// smallStep is by how many hundredths of what there is before it a small layer adds. Six of them
// make a map ten times as large.
const smallStep = 47

// secondLayer is for how many items the second layer is made at least if layers double, and each
// further one for twice as many: so a map of a tiny first capacity, too, can grow to maxItems. The
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
		if small := total * smallStep / 100; (total+small)<<(len(h.growth)-1-i) >= maxItems {
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
