//go:build !linux

package scriptengine

import "os"

// self is this program, which says here that there is no jail.
var self, _ = os.Executable()
