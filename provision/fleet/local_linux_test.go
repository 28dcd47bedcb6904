package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// local is a host on this machine: its commands are real, and its lock is a file of the
// test. Close cuts the connection, as far as commands can tell.
type local struct {
	name, dir string

	ctx context.Context // ends with the connection
	cut context.CancelFunc
}

func newLocal(t *testing.T, name string) *local {
	t.Helper()
	for _, tool := range []string{"flock", "timeout", "stat"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	return &local{name: name, dir: t.TempDir()}
}

func (h *local) lockFile() string { return filepath.Join(h.dir, "lock") }

// connect returns a new connection to the host.
func (h *local) connect(context.Context) (host.Host, io.Closer, error) {
	c := &local{name: h.name, dir: h.dir}
	c.ctx, c.cut = context.WithCancel(context.Background())
	return c, c, nil
}

func (h *local) Close() error { h.cut(); return nil }

func (h *local) Name() string { return h.name }

func (h *local) Upload(context.Context, host.Upload) error { return errors.ErrUnsupported }

// Run implements host.Host. When the connection or ctx ends, the command's input ends and its
// processes get a hang-up, except those with a process group of their own.
func (h *local) Run(ctx context.Context, c host.Command) (host.Output, error) {
	script := strings.ReplaceAll(c.Script, host.LockPath, h.lockFile())
	cmd := exec.Command("/bin/sh", "-c", script)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return host.Output{}, err
	}
	if h.ctx.Err() != nil {
		return host.Output{}, &host.ConnectionError{Host: h.name, Err: io.ErrClosedPipe}
	}
	if err := cmd.Start(); err != nil {
		return host.Output{}, err
	}
	// Nobody waits for this goroutine: like that of an SSH client, it stays in Read until the
	// reader has data.
	go func() {
		defer in.Close()
		if c.Stdin != nil {
			_, _ = io.Copy(in, c.Stdin)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		h.hangUp(cmd, in, ended)
		return host.Output{}, ctx.Err()
	case <-h.ctx.Done():
		h.hangUp(cmd, in, ended)
		return host.Output{}, &host.ConnectionError{Host: h.name, Err: io.ErrUnexpectedEOF}
	}
	out := host.Output{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	for _, ok := range append(c.OK, 0) {
		if out.Code == ok {
			return out, nil
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return out, err
	}
	return out, &host.CommandError{Host: h.name, Script: firstLine(c.Script), Output: out}
}

// hangUp does what package remote does: a process that ignores a hang-up, as all descendants of
// nohup do, is asked to terminate.
func (h *local) hangUp(cmd *exec.Cmd, in io.Closer, ended chan error) {
	in.Close()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)
	select {
	case <-ended:
	case <-time.After(time.Second):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
	}
}

// isFree reports whether the lock could be taken.
func (h *local) isFree(t *testing.T) bool {
	t.Helper()
	f, err := os.OpenFile(h.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err == nil
}
