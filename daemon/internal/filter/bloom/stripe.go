package bloom

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// StripeBytes is the unit in which a map is copied, checked and stored: all stripes
// have this size except the last, which may be shorter.
const StripeBytes = 4 << 20

// Stripes returns the number of stripes of the map. Each layer begins with a stripe of its own.
func (h Header) Stripes() int {
	n := 0
	for i := range h.layers() {
		n += stripes(h.blocksOf(i))
	}
	return n
}

func stripes(blocks uint64) int { return int((blocks*blockBytes + StripeBytes - 1) / StripeBytes) }

// StripeSize returns the length of stripe i in bytes.
func (h Header) StripeSize(i int) int {
	layer, i := h.StripeOf(i)
	return int(min(StripeBytes, h.blocksOf(layer)*blockBytes-uint64(i)*StripeBytes))
}

// LargestStripe returns the length in bytes of the largest stripe, one of the last layer.
func (h Header) LargestStripe() int {
	return int(min(StripeBytes, h.blocksOf(h.layers()-1)*blockBytes))
}

// StripeOf returns which stripe of which layer stripe i is. The map may not have the layer yet.
func (h Header) StripeOf(i int) (layer, of int) {
	for ; h.Layers > 0 && layer < MaxLayers-1; layer++ {
		n := stripes(h.blocksOf(layer))
		if i < n {
			break
		}
		i -= n
	}
	return layer, i
}

// Checksum returns the CRC-32C of b, by which stripes are checked.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// copyStep bounds how long Add waits for a copy: 128 KiB take some 10 microseconds.
const copyStep = 128 << 10

// Stripe copies stripe i into buf, which it returns cut to length; words are
// little-endian. Adds may go on meanwhile: every item added before the call is in the
// copy, and any later one may be, in whole or in part.
func (m *Map) Stripe(i int, buf []byte) []byte {
	buf = buf[:m.header.StripeSize(i)]
	at := i * StripeBytes
	for done := 0; done < len(buf); done += copyStep {
		part := buf[done:min(done+copyStep, len(buf))]
		m.mu.RLock()
		m.encode(part, at+done)
		m.mu.RUnlock()
	}
	return buf
}

// MergeStripe sets all bits that are set in data, the bytes of stripe i.
func (m *Map) MergeStripe(i int, data []byte) error {
	if len(data) != m.header.StripeSize(i) {
		return fmt.Errorf("%w: stripe %d of %d bytes, want %d", ErrCorrupt, i, len(data), m.header.StripeSize(i))
	}
	first := i * (StripeBytes / blockBytes)
	m.mu.Lock()
	defer m.mu.Unlock()
	for b := 0; b < len(data)/blockBytes; b++ {
		src := (*[blockBytes]byte)(data[b*blockBytes:])
		// Pages of zeroes are not touched, so that an empty map takes no memory.
		if *src == ([blockBytes]byte{}) {
			continue
		}
		dst := &m.blocks[first+b]
		for w := range dst {
			word := binary.LittleEndian.Uint64(src[w*8:])
			m.set += uint64(bits.OnesCount64(word &^ dst[w]))
			dst[w] |= word
		}
	}
	return nil
}

// encode writes the words from byte offset at on as little-endian bytes.
func (m *Map) encode(dst []byte, at int) {
	if littleEndian {
		copy(dst, m.mem[at:])
		return
	}
	for i := 0; i < len(dst); i += 8 {
		word := m.blocks[(at+i)/blockBytes][(at+i)/8%blockWords]
		binary.LittleEndian.PutUint64(dst[i:], word)
	}
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
