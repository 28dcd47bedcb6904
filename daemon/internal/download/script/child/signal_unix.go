//go:build unix

package child

import (
	"os"
	"syscall"
)

// cpuSignals are those that tell of too much time on the processor.
func cpuSignals() []os.Signal { return []os.Signal{syscall.SIGXCPU} }
