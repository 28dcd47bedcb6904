// Package mongotest starts real servers that speak MongoDB's protocol, for tests: FerretDB on
// SQLite, built once from its Go module, and killed when the test ends. It is for tests only, and
// does not replace a mongod in every respect: FerretDB has no TTL indexes and no transactions.
package mongotest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// EnvURI is the environment variable that names a further server, besides FerretDB, on which
// suites run.
const EnvURI = "URIFILTER_TEST_MONGODB_URI"

// Options say what a server must be like.
type Options struct {
	// User and Password, when set, must be given by clients: the server has that one user, in the
	// database admin.
	User, Password string
	// ReplicaSet is the name of the replica set whose primary the server claims to be.
	ReplicaSet string
	// CA, Cert and Key are PEM files: with them the server accepts TLS only, and requires
	// certificates from its clients. "": it has no TLS.
	CA, Cert, Key string
}

// Server is a FerretDB process on a free port of this machine.
type Server struct {
	t       testing.TB
	opt     Options
	binary  string
	dir     string
	addr    string
	started int

	testserver.Process // whose Kill is like a power cut: the data stay for Restart
}

// Start starts a server without users and returns its URI.
func Start(t testing.TB) string {
	t.Helper()
	return New(t, Options{}).URI()
}

// New starts a server. It is killed, and its data removed, when the test ends.
func New(t testing.TB, opt Options) *Server {
	t.Helper()
	s := start(t, opt, t.TempDir())
	t.Cleanup(s.Kill)
	return s
}

// shared is the server of all tests of this process that run now and do not need one of their own.
var shared struct {
	mu     sync.Mutex // guards the fields below
	server *Server
	users  int
}

// Shared returns a server without users, which other tests use too: it must not be killed or restarted, and each test needs a
// database of its own. It ends with the last of the tests that use it at the same time.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		dir, err := os.MkdirTemp("", "urifilter-ferretdb-")
		if err != nil {
			t.Fatal(err)
		}
		shared.server = start(t, Options{}, dir)
	}
	shared.users++
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			shared.server.Kill()
			_ = os.RemoveAll(shared.server.dir)
		}
	})
	return shared.server
}

func start(t testing.TB, opt Options, dir string) *Server {
	t.Helper()
	s := &Server{t: t, opt: opt, binary: build(t), dir: dir, addr: "127.0.0.1:0"}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if opt.ReplicaSet != "" {
		s.addr = testserver.Free(t) // it tells clients the address that it was given
	}
	s.Restart()
	return s
}

// URI returns the URI by which clients reach the server, with its user's name and password.
func (s *Server) URI() string {
	u := url.URL{Scheme: "mongodb", Host: s.addr, Path: "/"}
	if s.opt.User != "" {
		u.User = url.UserPassword(s.opt.User, s.opt.Password)
	}
	if s.opt.ReplicaSet != "" {
		u.RawQuery = url.Values{"replicaSet": {s.opt.ReplicaSet}}.Encode()
	}
	return u.String()
}

// Addr returns the server's host and port. A restart does not change them.
func (s *Server) Addr() string { return s.addr }

// Restart kills the server, if it runs, and starts it on the same data and port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.started++
	logName := filepath.Join(s.dir, fmt.Sprintf("log-%d", s.started))
	cmd := exec.Command(s.binary, s.arguments()...)
	cmd.Dir = s.dir
	// No setting of the caller's environment may change what is tested. With a larger heap than usual it
	// takes 30 % less processor time, most of it that of all tests that call it.
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "FERRETDB_") })
	cmd.Env = append(env, "DO_NOT_TRACK=1", "GOGC=400")
	if !s.Start(s.t, cmd, logName, []string{"Listening on T"}, []string{"address already in use"}) {
		s.t.Fatalf("ferretdb: %s is taken", s.addr)
	}
	text, err := os.ReadFile(logName)
	said := listening.FindSubmatch(text)
	if said == nil {
		s.t.Fatalf("ferretdb: %v; it printed no address:\n%s", err, text)
	}
	s.addr = string(said[1])
}

// listening matches what the server prints when it accepts connections.
var listening = regexp.MustCompile(`Listening on (?:TCP|TLS) (127\.0\.0\.1:[0-9]+)`)

func (s *Server) arguments() []string {
	args := []string{
		// Only the process is killed, not the machine: what was written stays without being
		// synced.
		"--handler=sqlite", "--sqlite-url=file:" + filepath.Join(s.dir, "data") + "/?_pragma=synchronous(off)",
		"--state-dir=-", "--listen-addr=" + s.addr, "--debug-addr=-",
		"--telemetry=disable", "--log-level=INFO", "--log-format=text",
		"--repl-set-name=" + s.opt.ReplicaSet,
	}
	if s.opt.CA != "" {
		args = append(args, "--listen-addr=", "--listen-tls="+s.addr, "--listen-tls-ca-file="+s.opt.CA, "--listen-tls-cert-file="+s.opt.Cert, "--listen-tls-key-file="+s.opt.Key)
	}
	if s.opt.User != "" {
		args = append(args, "--test-enable-new-auth", "--setup-database=admin",
			"--setup-username="+s.opt.User, "--setup-password="+s.opt.Password)
	}
	return args
}
