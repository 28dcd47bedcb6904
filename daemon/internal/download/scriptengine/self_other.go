//go:build !linux

package scriptengine

import "os"

// self is this program; run for job code here, it says that there is no jail.
var self, _ = os.Executable()
