//go:build !linux

package memlimit

// machine returns how many bytes of memory this machine has, or 0 if that is not known.
func machine() uint64 { return 0 }
