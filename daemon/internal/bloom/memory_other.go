//go:build !linux

package bloom

import "unsafe"

// memory is from the Go heap, as words so that it is aligned.
type memory []byte

func allocate(size uint64) (memory, error) {
	words := make([]uint64, size/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), nil
}

func (m memory) free() error { return nil }

// Memory is how many bytes this machine has, 0 where that is not known.
func Memory() uint64 { return 0 }
