package testserver

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Process is the process of a server. Its methods are for one goroutine at a time.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
}

// Start starts a server that writes its log to logFile, and waits until the log contains one of
// the texts ready. It returns false if the server ended because its address is taken, which one
// of the texts taken shows.
func (p *Process) Start(t testing.TB, cmd *exec.Cmd, logFile string, ready, taken []string) bool {
	t.Helper()
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, dieWithParent()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The parent whose death kills the server is a thread: this one lives as long as the
		// server.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(ended)
	}()
	err = <-started
	_ = log.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd, p.ended = cmd, ended
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		gone := false
		select {
		case <-ended:
			gone = true
		default:
		}
		text, _ := os.ReadFile(logFile)
		says := func(what string) bool { return strings.Contains(string(text), what) }
		switch {
		case gone && slices.ContainsFunc(taken, says):
			return false
		case gone:
			t.Fatalf("%s ends at once:\n%s", cmd.Path, text)
		case slices.ContainsFunc(ready, says):
			return true
		}
	}
	t.Fatalf("%s is not ready after 2 min", cmd.Path)
	return false
}

// Kill ends the server as kill -9 does, if it runs.
func (p *Process) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.cmd = nil
	}
}

// Signal sends sig to the server, if it runs.
func (p *Process) Signal(sig os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Wait waits until the server ends by itself, and returns its exit code, or -1 if it was killed or
// runs on after limit.
func (p *Process) Wait(limit time.Duration) int {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		return -1
	}
}
