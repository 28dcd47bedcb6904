package sandbox

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup gives a program a process group that is killed when its context ends, and has the
// program killed when this process ends, however that happens. For that, the calling
// goroutine must keep its thread until the program has ended.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
}

// tryLock locks a file if nobody else has locked it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// errNoDevice is the error when a control group is removed while it is read.
var errNoDevice error = syscall.ENODEV

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// signalPowerOff asks the systemd with that process ID to shut down: SIGRTMIN+4.
func signalPowerOff(pid int) error { return syscall.Kill(pid, syscall.Signal(34+4)) }
