package memlimit

import "golang.org/x/sys/unix"

// machine returns how many bytes of memory this machine has, or 0 if that is not known.
func machine() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) // narrower on some processors
}
