package body

import (
	"math/bits"
	"sync"
)

// buffers keeps the memory of closed bodies for new ones, by its size: a power of two. Most pages fit
// in the first two or three sizes. Without it, this memory is most of what a download allocates.
type buffers [bufferSizes]sync.Pool // of *[]byte

const (
	firstBytes  = 16 << 10 // the smallest size: memory starts with it, and then doubles
	bufferSizes = 7        // up to 1 MiB
)

// size is the index of a size, -1 if no buffer has so many bytes.
func (b *buffers) size(n int64) int {
	i := bits.TrailingZeros64(uint64(n)) - bits.TrailingZeros64(firstBytes)
	if n != firstBytes<<max(i, 0) || i >= len(b) {
		return -1
	}
	return i
}

// borrow returns memory of n bytes, with old contents.
func (b *buffers) borrow(n int64) []byte {
	if i := b.size(n); i >= 0 {
		if old, ok := b[i].Get().(*[]byte); ok {
			return *old
		}
	}
	return make([]byte, n)
}

// give takes back memory that is no longer used.
func (b *buffers) give(mem []byte) {
	mem = mem[:cap(mem)]
	spoil(mem)
	if i := b.size(int64(len(mem))); i >= 0 {
		b[i].Put(&mem)
	}
}
