//go:build !linux

package table

// memory comes from the Go heap.
type memory []byte

func allocate(size int) (memory, error) { return make(memory, size), nil }

func (m memory) free() error { return nil }
