//go:build !linux

package reexec

import "os"

// Self is this program; run again here, it says that there is no jail.
var Self, _ = os.Executable()
