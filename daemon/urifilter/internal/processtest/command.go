package processtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Command runs the binary with dir as its data directory and returns what it printed.
func Command(t testing.TB, dir string, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	path := Binary(t)
	var o, e bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env = append(append(os.Environ(), "URIFILTER_DATA_DIR="+dir), env...)
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// MustCommand is Command, and fails unless it succeeds.
func MustCommand(t testing.TB, dir string, env []string, args ...string) (out, errOut string) {
	t.Helper()
	code, out, errOut := Command(t, dir, env, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out, errOut)
	}
	return out, errOut
}

// Lines runs the binary with text as its input and returns what it printed.
func (p *Process) Lines(text string, args ...string) (code int, out, errOut string) {
	p.T.Helper()
	path := Binary(p.T)
	var o, e strings.Builder
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "URIFILTER_URL=http://"+p.Addr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &o, &e
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// Want runs a command, and fails unless it succeeds and prints this.
func (p *Process) Want(printed, text string, args ...string) {
	p.T.Helper()
	if code, out, errOut := p.Lines(text, args...); code != 0 || !strings.Contains(out, printed) || printed == "" && out != "" {
		p.T.Errorf("%q: exit code %d, want %q printed\n%s%s", args, code, printed, out, errOut)
	}
}

// MustRefuse runs serve with args, which must end with an error, and returns its message.
func MustRefuse(t *testing.T, env []string, args ...string) string {
	t.Helper()
	path := Binary(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("serve %v: does not refuse to start: %v\n%s", args, err, out)
	}
	if strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
		t.Errorf("serve %v panics:\n%s", args, out)
	}
	return string(out)
}
