package testserver

import "syscall"

// DieWithParent ends the server also when the tests are killed or run out of time,
// and no cleanup runs.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
