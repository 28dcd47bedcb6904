//go:build unix

package scriptengine

import (
	"os"
	"syscall"
)

var forbiddenCall = syscall.SIGSYS.String()

// bySignal returns the name of the signal that ended a process, "" if none did.
func bySignal(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
