package chores

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// foreground runs cmd until it ends, and asks it to stop when this process is
// asked to, or when the parent of this process is gone. A request less than once after
// the last one is the same Ctrl-C, which arrived in another way.
//
// The child is in a process group of its own, so that Ctrl-C, which the terminal
// sends to every process of the group and `go tool` passes on a second time, reaches it
// as one SIGTERM. Mage ends a target 5 s after Ctrl-C; foreground takes the signals away
// from mage, so that the child has the time that it needs and none is left behind.
func foreground(cmd *exec.Cmd, once time.Duration) error {
	// On Linux the kernel ends the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	signal.Reset(os.Interrupt, syscall.SIGTERM)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(asked)

	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	parent := os.Getppid()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	var last time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-asked:
			if time.Since(last) > once {
				last = time.Now()
				askToStop(cmd.Process)
			}
		case <-look.C:
			if last.IsZero() && os.Getppid() != parent {
				last = time.Now()
				askToStop(cmd.Process)
			}
		}
	}
}
