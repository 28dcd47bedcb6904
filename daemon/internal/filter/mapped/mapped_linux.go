// Package mapped has memory that is not on Go's heap: in huge pages, because probes are random and
// with small pages each would miss the TLB, too; and it returns to the system as soon as it is freed.
// It keeps no account of it, and nothing checks that freed memory is not used.
package mapped

import "golang.org/x/sys/unix"

// hugePage is the size from which huge pages help; smaller mappings would only be padded.
const hugePage = 2 << 20

// least is the size from which memory is mapped. Smaller memory comes from the Go heap: the calls
// and page faults of a mapping would take longer than all other work on a small table.
const least = 16 << 10

// Memory is an anonymous mapping: once freed, it returns to the system at once, while freed
// memory of the Go heap returns minutes later. A small one is from the heap.
type Memory []byte

// Allocate returns memory of zeros. Huge pages are taken from the system when first touched.
func Allocate(size int) (Memory, error) {
	if size < least {
		return make(Memory, size), nil
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if size >= 2*hugePage {
		// Refused if the kernel has no huge pages: that is only slower.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	return mem, nil
}

// Free returns the memory, which must not be used afterwards.
func (m Memory) Free() error {
	if len(m) < least {
		return nil
	}
	return unix.Munmap(m)
}
