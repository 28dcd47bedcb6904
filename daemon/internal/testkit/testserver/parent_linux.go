package testserver

import "syscall"

// dieWithParent makes the server end even if the tests are killed or run out of time, and no
// cleanup runs.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
