package processtest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Process is a running daemon.
type Process struct {
	T    testing.TB
	Addr string
	Cmd  *exec.Cmd
	Log  *testserver.Log
	Done chan struct{} // closed when it has ended; Err is then set
	Err  error
}

// Begin starts the daemon without waiting for it. env is added to the environment.
func Begin(t testing.TB, dir string, env []string, args ...string) *Process {
	t.Helper()
	return BeginAt(t, testserver.Free(t), dir, env, args...)
}

// BeginAt is Begin at an address chosen by the test.
func BeginAt(t testing.TB, addr, dir string, env []string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(Binary(t), append([]string{"serve", "--listen", addr, "--data-dir", dir}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	return begin(t, addr, cmd)
}

// begin starts a process that the end of the test kills.
func begin(t testing.TB, addr string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{T: t, Addr: addr, Cmd: cmd, Log: &testserver.Log{}, Done: make(chan struct{})}
	cmd.Stderr = p.Log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.Err = cmd.Wait()
		close(p.Done)
	}()
	t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Done })
	return p
}

// Start starts the daemon and waits until it is ready.
func Start(t testing.TB, dir string, env []string, args ...string) *Process {
	t.Helper()
	return Begin(t, dir, env, args...).AwaitReady()
}

// Signal sends sig, and does not wait.
func (p *Process) Signal(sig syscall.Signal) { _ = p.Cmd.Process.Signal(sig) }

// End sends sig and waits until the process has ended.
func (p *Process) End(sig syscall.Signal) error {
	p.T.Helper()
	http.DefaultClient.CloseIdleConnections() // a stop would wait for them
	p.Signal(sig)
	return p.Ended()
}

// Ended waits until the process has ended, by itself or by a signal.
func (p *Process) Ended() error {
	p.T.Helper()
	select {
	case <-p.Done:
		return p.Err
	case <-time.After(2 * time.Minute):
		p.T.Fatalf("the process does not end\n%s", p.Log)
		return nil
	}
}

// BeginOn starts the daemon and hands it sockets, as systemd does.
func BeginOn(t testing.TB, sockets []*os.File, dir string, env []string, args ...string) *Process {
	t.Helper()
	l, err := net.FileListener(sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	// The variable names the target process, whose id exec keeps.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", Binary(t), "serve", "--listen", addr, "--data-dir", dir}, args...)...)
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(sockets))), env...)
	cmd.ExtraFiles = sockets
	return begin(t, addr, cmd)
}

// SocketFile returns a listening socket, to be handed over.
func SocketFile(t testing.TB) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// BeginIn is Begin, but the daemon enters the control group whose file of processes is procs before
// it runs.
func BeginIn(t testing.TB, procs, dir string, env []string, args ...string) *Process {
	t.Helper()
	addr := testserver.Free(t)
	cmd := exec.Command("/bin/sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, procs, Binary(t), "serve", "--listen", addr, "--data-dir", dir}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	return begin(t, addr, cmd)
}
