//go:build unix

package httpserver

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may have open; 0: unknown, or unlimited. Go has
// raised the soft limit to the hard one.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
