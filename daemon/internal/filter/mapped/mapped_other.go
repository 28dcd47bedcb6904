//go:build !linux

package mapped

// Memory comes from the Go heap.
type Memory []byte

// Allocate returns memory of zeros.
func Allocate(size int) (Memory, error) { return make(Memory, size), nil }

// Free returns the memory.
func (m Memory) Free() error { return nil }
