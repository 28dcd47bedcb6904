//go:build !linux

package bloom

import "unsafe"

// memory is allocated on the Go heap, as words so that it is aligned.
type memory []byte

func allocate(size uint64) (memory, error) {
	words := make([]uint64, size/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), nil
}

func (m memory) free() error { return nil }

// Memory returns how many bytes of memory this machine has, or 0 if that is not known.
func Memory() uint64 { return 0 }
