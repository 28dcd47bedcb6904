package processtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Manager stands in for systemd: it receives the daemon's notifications.
type Manager struct {
	t    *testing.T
	Path string
	conn *net.UnixConn
	mu   sync.Mutex
	said []string // one line per assignment
}

// NewManager makes a Manager that listens until the test ends.
func NewManager(t *testing.T) *Manager {
	t.Helper()
	// The path of a socket may have at most about a hundred bytes.
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	m := &Manager{t: t, Path: filepath.Join(dir, "s")}
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.Path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		buf := make([]byte, 4096)
		for {
			n, err := m.conn.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, strings.Split(string(buf[:n]), "\n")...)
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = m.conn.Close()
		<-heard
		_ = os.RemoveAll(dir)
	})
	return m
}

// Env returns the variables by which a daemon finds the manager.
func (m *Manager) Env() []string { return []string{"NOTIFY_SOCKET=" + m.Path} }

// String returns all notifications so far, each assignment between two newlines.
func (m *Manager) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "\n" + strings.Join(m.said, "\n") + "\n"
}

// Hear makes the Manager read this line, and so everything sent before it.
func (m *Manager) Hear(line string) {
	m.t.Helper()
	conn, err := net.Dial("unixgram", m.Path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(line)); err != nil {
		m.t.Fatal(err)
	}
	m.Await(line, 1)
}

// Await waits until n lines with this beginning have come.
func (m *Manager) Await(line string, n int) {
	m.t.Helper()
	testserver.Await(m.t, fmt.Sprintf("%s is said %d times", line, n), func() bool { return strings.Count(m.String(), "\n"+line) >= n }, m)
}
