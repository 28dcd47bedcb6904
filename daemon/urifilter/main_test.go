package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testport"
)

// binary builds the daemon once for all tests that run it as a process of its own.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "urifilter-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "urifilter")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is a running daemon.
type process struct {
	t    testing.TB
	addr string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{} // closed when it has ended; err is then set
	err  error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// begin starts the daemon without waiting for it. env is added to the environment.
func begin(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	return beginAt(t, testport.Free(t), dir, env, args...)
}

func beginAt(t testing.TB, addr, dir string, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, addr: addr, log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, append([]string{"serve", "--listen", p.addr, "--data-dir", dir}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	return p
}

// start starts the daemon and waits until it is ready.
func start(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	return begin(t, dir, env, args...).awaitReady()
}

func (p *process) awaitReady() *process {
	t := p.t
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.done:
			t.Fatalf("the daemon ended at once: %v\n%s", p.err, p.log)
		default:
		}
		if status, _, err := p.get("/readyz"); err == nil && status == http.StatusOK {
			return p
		}
	}
	t.Fatalf("not ready after 2 min\n%s", p.log)
	return nil
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// end sends sig and waits for the process's end.
func (p *process) end(sig syscall.Signal) error {
	p.t.Helper()
	http.DefaultClient.CloseIdleConnections() // a stop would wait for them
	p.signal(sig)
	select {
	case <-p.done:
		return p.err
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("does not end on %v\n%s", sig, p.log)
		return nil
	}
}

func (p *process) get(path string) (int, string, error) {
	resp, err := http.Get("http://" + p.addr + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// post sends a body as curl -d does.
func (p *process) post(ctx context.Context, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func waitLive(t testing.TB, p *process) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if status, _, err := p.get("/livez"); err == nil && status == http.StatusOK {
			return
		}
	}
	t.Fatalf("not live after 2 min\n%s", p.log)
}
