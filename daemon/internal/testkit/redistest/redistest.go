// Package redistest starts real Redis servers for tests, on free ports of loopback, and
// stops them when the test ends.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Server is one redis-server.
type Server struct {
	Addr string
	Dir  string // its working folder, with its append-only file
	t    testing.TB
	args []string
	tls  *TLS
	// config is a sentinel's file and flags; nil for a server.
	config []string
	testserver.Process
}

// TLS names PEM files for a server that accepts only TLS and demands certificates from its
// clients.
type TLS struct{ CA, Cert, Key string }

// Start starts a server without persistence; args are further settings of redis-server,
// such as "--requirepass", "secret".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartTLS(t, nil, args...)
}

// StartTLS is Start for a server with TLS; nil: without.
func StartTLS(t testing.TB, tls *TLS, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed (Debian: redis-server)")
	}
	s := &Server{Addr: testserver.Free(t), Dir: t.TempDir(), t: t, args: args, tls: tls}
	t.Cleanup(s.Kill)
	testserver.OnFreePort(t, &s.Addr, s.run)
	return s
}

// Client returns a client that gives each call time on a busy machine and repeats none: what a server
// has done twice, a test would call a fault. It ends with t.
func Client(t testing.TB, o redis.Options) *redis.Client {
	o.ReadTimeout, o.WriteTimeout, o.MaxRetries = 5*time.Minute, 5*time.Minute, -1
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Run starts the server again, after Kill, with what is in its folder.
func (s *Server) Run() {
	s.t.Helper()
	if !s.run() {
		s.t.Fatalf("redis-server: %s is taken", s.Addr)
	}
}

// run starts the server, and tells whether it, and not another, answers at its address.
func (s *Server) run() bool {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--daemonize", "no"}, s.args...)
	if s.config != nil { // a sentinel, which accepts no --save
		args = append(s.config, "--port", port, "--bind", "127.0.0.1", "--dir", s.Dir)
	}
	if s.tls != nil {
		args = append(args, "--port", "0", "--tls-port", port, "--tls-cluster", "yes", "--tls-replication", "yes",
			"--tls-ca-cert-file", s.tls.CA, "--tls-cert-file", s.tls.Cert, "--tls-key-file", s.tls.Key)
	}
	return s.Start(s.t, exec.Command("redis-server", args...), filepath.Join(s.Dir, "log"),
		[]string{"eady to accept connections", "Sentinel ID is"}, []string{"in use"})
}

// CLI runs a command with redis-cli and returns what it prints. If the connection is closed, it asks
// again for info, which changes nothing: a sentinel that makes a server a replica cuts off its clients.
func (s *Server) CLI(args ...string) string {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	with := []string{"-p", port}
	if s.tls != nil {
		with = append(with, "--tls", "--cacert", s.tls.CA, "--cert", s.tls.Cert, "--key", s.tls.Key)
	}
	out, err := exec.CommandContext(ctx, "redis-cli", append(with, args...)...).CombinedOutput()
	for err != nil && args[0] == "info" && strings.Contains(string(out), "Server closed the connection") && ctx.Err() == nil {
		out, err = exec.CommandContext(ctx, "redis-cli", append(with, args...)...).CombinedOutput()
	}
	if err != nil {
		s.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Cluster starts three masters that form a cluster, and returns when it is whole. What a node
// has answered is in its file when it is killed: with appendfsync everysec it would not be
// while the disk is slow, because Redis then answers for up to two seconds before it writes.
// tls is nil for servers without TLS.
func Cluster(t testing.TB, tls *TLS) []*Server {
	t.Helper()
	return ClusterOf(t, tls, 3)
}

// ClusterOf is Cluster for any number of masters, with further settings.
func ClusterOf(t testing.TB, tls *TLS, masters int, args ...string) []*Server {
	t.Helper()
	servers := make([]*Server, masters)
	create := []string{"--cluster-yes", "--cluster", "create"}
	for i := range servers {
		// On a busy machine nodes answer each other late; no test waits for one to be declared
		// dead.
		own := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--appendonly", "yes", "--appendfsync", "no"}
		servers[i] = StartTLS(t, tls, append(own, args...)...)
		create = append(create, servers[i].Addr)
	}
	servers[0].CLI(create...)
	for _, s := range servers {
		testserver.Await(t, "the cluster at "+s.Addr+" is whole", func() bool { return strings.Contains(s.CLI("cluster", "info"), "cluster_state:ok") })
	}
	return servers
}

// Sentinels starts a master, its replica, and a sentinel that watches them under the name
// mymaster. The sentinel fails over only after FailOver: on a busy machine a live master may be
// silent for long. tls is nil for servers without TLS.
func Sentinels(t testing.TB, tls *TLS) (sentinel, master, replica *Server) {
	t.Helper()
	master = StartTLS(t, tls)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica = StartTLS(t, tls, "--replicaof", host, port)
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor mymaster %s %s 1\nsentinel down-after-milliseconds mymaster %s\nsentinel failover-timeout mymaster 3000\n", host, port, patient)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel = &Server{Addr: testserver.Free(t), Dir: dir, t: t, tls: tls, config: []string{conf, "--sentinel"}}
	t.Cleanup(sentinel.Kill)
	sentinel.Run()
	testserver.Await(t, "the sentinel sees the replica", func() bool {
		return strings.Contains(sentinel.CLI("sentinel", "master", "mymaster"), "num-slaves\n1") &&
			strings.Contains(replica.CLI("info", "replication"), "master_link_status:up")
	})
	return sentinel, master, replica
}

// patient is for how many milliseconds a master is silent before the sentinel takes it for dead.
const patient = "3600000"

// Patient ends FailOver: the sentinel waits again as Sentinels says.
func Patient(sentinel *Server) {
	sentinel.t.Helper()
	sentinel.CLI("sentinel", "set", "mymaster", "down-after-milliseconds", patient)
}

// FailOver kills a master of Sentinels, and makes the sentinel notice that in half a second.
func FailOver(sentinel, master *Server) {
	sentinel.t.Helper()
	master.Kill()
	sentinel.CLI("sentinel", "set", "mymaster", "down-after-milliseconds", "500")
}
