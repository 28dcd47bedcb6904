//go:build !linux

package mapped

// Memory comes from the Go heap.
type Memory []byte

// Allocate returns memory of zeros.
func Allocate(size int) (Memory, error) { return make(Memory, size), nil }

// Extend returns memory of another size, not less, that begins like m, which must not be used
// afterwards; what is added is zero.
func (m Memory) Extend(size int) (Memory, error) {
	return append(make(Memory, 0, size), m...)[:size], nil
}

// Free returns the memory.
func (m Memory) Free() error { return nil }

// Machine returns how many bytes of memory this machine has, or 0 if that is not known.
func Machine() uint64 { return 0 }
