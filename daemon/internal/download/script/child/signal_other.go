//go:build !unix

package child

import "os"

// cpuSignals returns one that never comes, because there is no jail here.
func cpuSignals() []os.Signal { return []os.Signal{os.Kill} }
