//go:build unix

package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time that this process has used; false: the system does not tell.
func cpuTime() (time.Duration, bool) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
