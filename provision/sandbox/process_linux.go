package sandbox

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup gives a program a process group that ends with its context, and lets it end
// with this process too, however that ends. For that the calling goroutine must keep
// its thread until the program has ended.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
}

// tryLock takes the lock of a file if nobody has it.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// errNoDevice is what a control group says when it goes while it is read.
var errNoDevice error = syscall.ENODEV

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// signalPowerOff asks the systemd of that process number to shut down: SIGRTMIN+4.
func signalPowerOff(pid int) error { return syscall.Kill(pid, syscall.Signal(34+4)) }
