package sandbox

import (
	"context"
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

// lockFile waits for the lock of a file, which is made if missing. Closing gives it back.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(f, path) {
			return f, nil
		}
		f.Close()
		if err != nil && err != unix.EWOULDBLOCK {
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isAt tells whether the file has not been removed before it was locked.
func isAt(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

// errNoDevice is what a control group says when it goes while it is read.
var errNoDevice error = syscall.ENODEV

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// signalPowerOff asks the systemd of that process number to shut down: SIGRTMIN+4.
func signalPowerOff(pid int) error { return syscall.Kill(pid, syscall.Signal(34+4)) }
