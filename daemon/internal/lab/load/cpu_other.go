//go:build !unix

package load

import "time"

func cpuTime() (time.Duration, bool) { return 0, false }
