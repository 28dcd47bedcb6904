//go:build unix

package child

import (
	"os"
	"syscall"
)

// cpuSignals are the signals sent after too much processor time.
func cpuSignals() []os.Signal { return []os.Signal{syscall.SIGXCPU} }
