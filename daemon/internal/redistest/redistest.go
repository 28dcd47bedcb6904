// Package redistest starts real Redis servers for tests, on free ports of loopback, and
// stops them when the test ends.
package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is one redis-server.
type Server struct {
	Addr string
	Dir  string // its working folder, with its append-only file
	t    testing.TB
	args []string
	cmd  *exec.Cmd
}

// Start starts a server without persistence; args are further settings of redis-server,
// such as "--requirepass", "secret".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed (Debian: redis-server)")
	}
	s := &Server{Addr: freeAddr(t), Dir: t.TempDir(), t: t, args: args}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

func freeAddr(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr)
		_ = l.Close()
		if addr.Port < 55000 { // a cluster's bus is on the port 10,000 above
			return addr.String()
		}
	}
}

// Run starts the server again, after Kill, with what is in its folder.
func (s *Server) Run() {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--daemonize", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	err = s.cmd.Start()
	_ = log.Close()
	if err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			_ = conn.Close()
			return
		}
	}
	text, _ := os.ReadFile(log.Name())
	s.t.Fatalf("redis-server does not start:\n%s", text)
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// CLI runs a command by redis-cli and returns what it prints.
func (s *Server) CLI(args ...string) string {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Cluster starts three masters that are a cluster, and returns when it is whole.
func Cluster(t testing.TB) []*Server {
	t.Helper()
	servers := make([]*Server, 3)
	create := []string{"--cluster-yes", "--cluster", "create"}
	for i := range servers {
		servers[i] = Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--appendonly", "yes")
		create = append(create, servers[i].Addr)
	}
	servers[0].CLI(create...)
	for _, s := range servers {
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(s.CLI("cluster", "info"), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(fmt.Errorf("the cluster at %s does not become whole", s.Addr))
			}
		}
	}
	return servers
}
