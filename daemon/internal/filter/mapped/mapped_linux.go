// Package mapped has memory that is not on Go's heap: in huge pages, because probes are random and
// with small pages each would miss the TLB, too; and it returns to the system as soon as it is freed.
// It keeps no account of it, and nothing checks that freed memory is not used. It knows how much the
// machine has.
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
	advise(mem)
	return mem, nil
}

func advise(mem []byte) {
	if len(mem) >= 2*hugePage {
		// Refused if the kernel has no huge pages: that is only slower.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}

// Extend returns memory of another size, not less, that begins like m, which must not be used
// afterwards; what is added is zero. After an error m is as it was. The pages of a mapping stay: a
// new one would cost a fault for each of them.
func (m Memory) Extend(size int) (Memory, error) {
	if len(m) < least {
		mem, err := Allocate(size)
		copy(mem, m)
		return mem, err
	}
	mem, err := unix.Mremap(m, size, unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, err
	}
	advise(mem)
	return mem, nil
}

// Machine returns how many bytes of memory this machine has, or 0 if that is not known.
func Machine() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) // narrower on some processors
}

// Free returns the memory, which must not be used afterwards.
func (m Memory) Free() error {
	if len(m) < least {
		return nil
	}
	return unix.Munmap(m)
}
