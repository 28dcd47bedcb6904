package chromium

import (
	"os"
	"os/exec"
	"syscall"
)

// group puts the processes into their own group, which dies with the thread that starts it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // it may have ended
