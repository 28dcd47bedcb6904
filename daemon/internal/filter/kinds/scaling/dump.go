package scaling

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// The head of a dump is, little-endian and without gaps, as RedisBloom 2 writes it:
//
//	size  of the chain
//	   8  items
//	   4  number of layers
//	   4  options: 1 sizes are not rounded to powers of two, 4 64-bit hashes, 8 does not grow
//	   4  expansion
//
//	      of each layer
//	   8  bytes of its bits
//	   8  bits
//	   8  items
//	   8  error rate, float64
//	   8  bits an item, float64
//	   4  bits that an item sets
//	   8  capacity
//	   1  power of two of the size; 0: none
const (
	chainBytes, layerBytes = 20, 53

	notRounded, hash64, notScaling = 1, 4, 8

	// maxLayers is far more than a chain can have before it is too large for any machine.
	maxLayers = 1024
)

func (c *chain) appendHead(dst []byte) []byte {
	le := binary.LittleEndian
	options := uint32(notRounded | hash64)
	if c.fixed {
		options |= notScaling
	}
	dst = le.AppendUint64(dst, c.items())
	dst = le.AppendUint32(dst, uint32(len(c.layers)))
	dst = le.AppendUint32(dst, options)
	dst = le.AppendUint32(dst, uint32(c.expansion))
	for _, l := range c.layers {
		dst = le.AppendUint64(dst, uint64(len(l.bits)))
		dst = le.AppendUint64(dst, uint64(len(l.bits))*8)
		dst = le.AppendUint64(dst, l.items)
		dst = le.AppendUint64(dst, math.Float64bits(l.errorRate))
		dst = le.AppendUint64(dst, math.Float64bits(l.perItem))
		dst = le.AppendUint32(dst, l.hashes)
		dst = le.AppendUint64(dst, l.capacity)
		dst = append(dst, 0)
	}
	return dst
}

// parseHead returns the chain that a head describes, without its bits, and how many bytes these
// take in all. The head may be from anybody: what it claims is checked against the rules by which
// layers are made.
func parseHead(head []byte) (c *chain, sizes []uint64, err error) {
	bad := func(format string, args ...any) (*chain, []uint64, error) {
		return nil, nil, fmt.Errorf("head of a dump: %w: "+format, append([]any{bloom.ErrCorrupt}, args...)...)
	}
	le := binary.LittleEndian
	if len(head) < chainBytes {
		return bad("%d bytes, want %d at least", len(head), chainBytes)
	}
	n, options := uint64(le.Uint32(head[8:])), le.Uint32(head[12:])
	switch {
	case n < 1 || n > maxLayers || uint64(len(head)) != chainBytes+n*layerBytes:
		return bad("%d bytes for %d layers", len(head), n)
	case options&^notScaling != notRounded|hash64:
		return bad("options %d: want %d, or %d if it does not grow", options, notRounded|hash64, notRounded|hash64|notScaling)
	}
	c = &chain{expansion: uint64(le.Uint32(head[16:])), fixed: options&notScaling != 0}
	if c.fixed && n > 1 {
		return bad("%d layers of a chain that does not grow", n)
	}
	for i := range int(n) {
		b := head[chainBytes+i*layerBytes:]
		l := layer{
			items: le.Uint64(b[16:]), errorRate: math.Float64frombits(le.Uint64(b[24:])), perItem: math.Float64frombits(le.Uint64(b[32:])),
			hashes: le.Uint32(b[40:]), capacity: le.Uint64(b[44:]),
		}
		if !(l.errorRate > 0 && l.errorRate < 1) || l.capacity == 0 {
			return bad("layer %d: %d items at an error rate of %g", i, l.capacity, l.errorRate)
		}
		want, size, err := shape(l.capacity, l.errorRate)
		switch {
		case err != nil:
			return bad("layer %d: %v", i, err)
		case le.Uint64(b) != size || le.Uint64(b[8:]) != size*8 || l.hashes != want.hashes || b[52] != 0:
			return bad("layer %d: %d bytes and %d hashes, and its rate and capacity ask for %d and %d", i, le.Uint64(b), l.hashes, size, want.hashes)
		case l.items > l.capacity && !c.fixed && i < int(n)-1:
			return bad("layer %d: has %d items of %d", i, l.items, l.capacity)
		}
		c.layers, sizes = append(c.layers, &l), append(sizes, size)
	}
	c.errorRate = c.layers[0].errorRate
	if !c.fixed {
		c.errorRate *= 2
	}
	return c, sizes, nil
}

// chunkBytes is how much of a layer one chunk of a dump has.
const chunkBytes = 16 << 20

// chunk returns the part of a dump after iterator, which is 0 for the head, and the iterator of
// the part that comes then. A dump has ended with 0 and nothing.
func (c *chain) chunk(iterator int64) (next int64, data []byte, ok bool) {
	switch {
	case iterator < 0:
		return 0, nil, false
	case iterator == 0:
		return 1, c.appendHead(nil), true
	}
	at := uint64(iterator - 1)
	for _, l := range c.layers {
		size := uint64(len(l.bits))
		if at < size {
			end := min(size, at+chunkBytes)
			return iterator + int64(end-at), bytes.Clone(l.bits[at:end]), true
		}
		at -= size
	}
	return 0, nil, at == 0
}
