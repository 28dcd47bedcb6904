package table

import "golang.org/x/sys/unix"

// hugePage is the size from which huge pages help; smaller mappings would only be padded.
const hugePage = 2 << 20

// mapped is the size from which memory is mapped. Smaller memory comes from the Go heap: the calls
// and page faults of a mapping would take longer than all other work on a small table.
const mapped = 16 << 10

// memory is an anonymous mapping: once freed, it returns to the system at once, while freed
// memory of the Go heap returns minutes later. A small one is from the heap.
type memory []byte

func allocate(size int) (memory, error) {
	if size < mapped {
		return make(memory, size), nil
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

func (m memory) free() error {
	if len(m) < mapped {
		return nil
	}
	return unix.Munmap(m)
}
