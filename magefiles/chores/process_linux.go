package chores

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's signals from cmd, and makes it end with this process.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// askToStop asks for an orderly stop. A process that has ended already is fine.
func askToStop(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
