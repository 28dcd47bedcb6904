package chromium

import (
	"os"
	"os/exec"
	"syscall"
)

// self is this program, also where its file was replaced since.
const self = "/proc/self/exe"

// group makes the processes a group of their own, which dies with the thread that starts it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // it may have ended
