package bloom

import "golang.org/x/sys/unix"

// memory is an anonymous mapping in huge pages where the system has them: probes are
// random, and with small pages each would miss the TLB too. The Go heap gets no huge pages.
type memory []byte

func allocate(size uint64) (memory, error) {
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// The kernel refuses this if it has no huge pages: that is slower, nothing else.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return mem, nil
}

func (m memory) free() error { return unix.Munmap(m) }

// Memory returns how many bytes of memory this machine has, or 0 if that is not known.
func Memory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) // narrower on some processors
}
