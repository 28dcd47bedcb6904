//go:build unix

package chores

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// standIn is a daemon that is ready a moment after its start, and prints how it was
// called and when it stops.
const standIn = `package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("called with", os.Args[1:])
	time.Sleep(200 * time.Millisecond)
	server := &http.Server{Addr: os.Args[5]}
	go server.ListenAndServe()
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	<-ctx.Done()
	fmt.Println("stopped")
}
`

// said holds what a program has written so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) waitFor(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(s.String(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("want %q in:\n%s", want, s)
		}
	}
}

// freeAddress returns an address that belongs to the test until it ends: its port is outside
// the range from which the system assigns ports, and a socket is kept open on the UDP port of
// the same number, as in the tests of daemons.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000))
		claim, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			claim.Close()
			continue
		}
		t.Cleanup(func() { claim.Close() })
		return addr
	}
	t.Fatal("no free port between 10000 and 20000")
	return ""
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module made.up\n\ngo 1.26.0\n", "daemon/urifilter/main.go": standIn} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := freeAddress(t)

	var out said
	run := part("run", "")
	run.Dir, run.Stdout, run.Stderr = dir, &out, &out
	run.Env = append(run.Env, "URIFILTER_LISTEN="+addr)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	out.waitFor(t, "urifilter is ready on http://"+addr)
	for _, want := range []string{
		fmt.Sprintf("called with [serve --data-dir %s --listen %s]", filepath.Join(".run", "data"), addr),
		"building dist/urifilter from the sources here: the first time takes some minutes", "starting dist/urifilter on " + addr,
		"curl -d ", "dist/urifilter filter --filter uri_generator --server http://" + addr,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, &out)
		}
	}

	second := part("run", "")
	second.Dir = dir
	second.Env = append(second.Env, "URIFILTER_LISTEN="+addr)
	second.Stderr = nil // CombinedOutput sets it
	text, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(text), addr+" is in use by a urifilter") {
		t.Errorf("a second run: %v\n%s", err, text)
	}

	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("run: %v", err)
	}
	if !strings.HasSuffix(out.String(), "stopped\n") {
		t.Errorf("the daemon had no time to stop:\n%s", &out)
	}
}
