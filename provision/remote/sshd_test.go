package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// sshServer is a real sshd on a loopback address, for one test. It lets the user who runs the
// test log in.
type sshServer struct {
	dir     string
	port    int
	host    ssh.Signer // its key
	program *exec.Cmd
	log     string // file
}

// newKey makes a key pair and writes it to a file, encrypted unless passphrase is "".
func newKey(t *testing.T, file, passphrase string) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// freePort returns a port that belongs to this test until the test ends: a socket on the UDP port
// of the same number keeps other tests from it, including those of package testserver.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		// Outside the range from which clients get their ports.
		port := 10_000 + mathrand.IntN(10_000)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
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
		return port
	}
	t.Fatal("no free port")
	return 0
}

// newServer starts an sshd that has the lines of more in its config and accepts logins with any
// of the keys. Shells have another HOME: bash reads ~/.bashrc for each command that comes over SSH,
// and that of a developer may take seconds.
func newServer(t *testing.T, more string, keys ...ssh.PublicKey) *sshServer {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Skip("sshd is not installed: apt-get install openssh-server")
	}
	if os.Geteuid() == 0 { // sshd changes its root to this folder
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &sshServer{dir: t.TempDir(), port: freePort(t)}
	s.log = filepath.Join(s.dir, "log")
	s.host = newKey(t, filepath.Join(s.dir, "host_key"), "")
	s.allow(t, keys...)
	config := fmt.Sprintf(`ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s
StrictModes no
UsePAM no
LoginGraceTime 0
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
SetEnv HOME=%s
%s
`, s.port, filepath.Join(s.dir, "host_key"), filepath.Join(s.dir, "authorized_keys"), s.dir, more)
	if !strings.Contains(more, "Subsystem") {
		config += "Subsystem sftp internal-sftp\n"
	}
	if err := os.WriteFile(filepath.Join(s.dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// It ends, whatever happens to the test.
	s.program = exec.Command("timeout", "600", program, "-D", "-f", filepath.Join(s.dir, "config"), "-E", s.log)
	s.start(t)
	return s
}

func (s *sshServer) allow(t *testing.T, keys ...ssh.PublicKey) {
	t.Helper()
	var text []byte
	for _, k := range keys {
		text = append(text, ssh.MarshalAuthorizedKey(k)...)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "authorized_keys"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *sshServer) start(t *testing.T) {
	t.Helper()
	if err := s.program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		s.program.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(s.log)
			t.Logf("sshd:\n%s", log)
		}
	})
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", s.address()); err == nil {
			conn.Close()
			return
		}
	}
	t.Fatal("sshd does not listen")
}

func (s *sshServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// readLog returns sshd's log.
func (s *sshServer) readLog(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// me is an operator: a home folder with a key, and a Dialer.
type me struct {
	home  string
	key   ssh.Signer
	env   map[string]string
	o     login.Options
	said  []string
	asked []string
	mu    sync.Mutex
}

func newMe(t *testing.T) *me {
	t.Helper()
	m := &me{home: t.TempDir(), env: map[string]string{}}
	if err := os.Mkdir(filepath.Join(m.home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.key = newKey(t, m.file("id_ed25519"), "")
	m.o = login.Options{
		Home: m.home, ConfigFile: "none", Getenv: func(name string) string { return m.env[name] },
		Say: func(host, text string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.said = append(m.said, host+": "+text)
		},
	}
	return m
}

func (m *me) file(name string) string { return filepath.Join(m.home, ".ssh", name) }

// knows adds a key to the known hosts.
func (m *me) knows(t *testing.T, address string, key ssh.PublicKey) {
	t.Helper()
	f, err := os.OpenFile(m.file("known_hosts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(key))
}

// answers has a person give these answers, in this order.
func (m *me) answers(answers ...string) {
	m.o.Ask = func(_ context.Context, prompt string) (string, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = append(m.asked, prompt)
		if len(m.asked) > len(answers) {
			return "", fmt.Errorf("asked too often: %q", m.asked)
		}
		return answers[len(m.asked)-1], nil
	}
}

// localUser returns the name of the user who runs the tests, or "" if it is not known.
func localUser() string {
	who, err := user.Current()
	if err != nil {
		return ""
	}
	return who.Username
}

// dialer returns a Dialer that is closed at the end of the test.
func (m *me) dialer(t *testing.T) *Dialer {
	t.Helper()
	d := New(m.o)
	d.killWait = time.Minute // on a busy machine, ending a command takes longer too
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (m *me) dial(t *testing.T, h inventory.Host) (*Conn, error) {
	t.Helper()
	c, err := m.dialer(t).Dial(t.Context(), h)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (m *me) mustDial(t *testing.T, h inventory.Host) *Conn {
	t.Helper()
	c, err := m.dial(t, h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hostOf returns the inventory entry of a server.
func hostOf(s *sshServer) inventory.Host {
	return inventory.Host{Name: "web1", Address: "127.0.0.1", Login: inventory.Login{Port: s.port, User: localUser()}}
}

// connected returns a connection to a server of its own.
func connected(t *testing.T, more string) *Conn {
	t.Helper()
	m := newMe(t)
	s := newServer(t, more, m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	return m.mustDial(t, hostOf(s))
}

// faultOf expects err to be a *host.ConnectionError that wraps a *login.Fault of the kind, with a
// hint and with the texts in it.
func faultOf(t *testing.T, err error, kind login.Kind, texts ...string) *login.Fault {
	t.Helper()
	var gone *host.ConnectionError
	var f *login.Fault
	if !errors.As(err, &gone) || !errors.As(err, &f) {
		t.Fatalf("got %T %v, want a connection error with a fault", err, err)
	}
	t.Log(err)
	if f.Kind != kind || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got kind %q, want %q, and a hint:\n%v", f.Kind, kind, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v\nwant %q in it", err, text)
		}
	}
	return f
}

// run calls Run, which must not fail.
func run(t *testing.T, c *Conn, cmd host.Command) host.Output {
	t.Helper()
	out, err := c.Run(t.Context(), cmd)
	if err != nil {
		var bad *host.CommandError
		if errors.As(err, &bad) {
			t.Fatalf("%v\n%s", err, bad.Output.Stderr)
		}
		t.Fatal(err)
	}
	return out
}

// content returns size random bytes, and a Source of an upload that has them.
func content(size int) ([]byte, io.ReaderAt) {
	data := make([]byte, size)
	_, _ = rand.Read(data)
	return data, bytes.NewReader(data)
}

func itoa(n int) string { return strconv.Itoa(n) }
