//go:build linux || darwin

package scan

import (
	"os"
	"syscall"
	"testing"
)

// guarded returns memory; a read past its end faults.
func guarded(t *testing.T) []byte {
	t.Helper()
	size := os.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 2*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(m[size:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return m[:size:size]
}
