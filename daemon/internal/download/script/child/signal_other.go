//go:build !unix

package child

import "os"

// cpuSignals has one that never comes: here is no jail.
func cpuSignals() []os.Signal { return []os.Signal{os.Kill} }
