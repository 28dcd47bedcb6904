package table

import "golang.org/x/sys/unix"

// hugePage is the size from which huge pages pay; smaller mappings would only be padded.
const hugePage = 2 << 20

// mapped is the size from which memory is mapped; what is smaller comes from the Go heap: the calls
// and the page faults of a mapping would take longer than all else that is done to a small table.
const mapped = 16 << 10

// memory is an anonymous mapping: freed, it goes back to the system at once, which that
// of the Go heap does minutes later. A small one is from the heap.
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
		// Refused where the kernel has no huge pages: slower, nothing else.
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
