package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

func TestDial(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	if c.Name() != "web1" || !strings.Contains(c.Target(), "@127.0.0.1:") {
		t.Errorf("got %s, %s", c.Name(), c.Target())
	}
	if c.link.Reached <= 0 { // which says how far the host is
		t.Errorf("reached after %s", c.link.Reached)
	}
	out := run(t, c, host.Command{Script: "echo out; echo err >&2; exit 3", OK: []int{3}})
	if want := (host.Output{Stdout: "out\n", Stderr: "err\n", Code: 3}); out != want {
		t.Errorf("got %+v, want %+v", out, want)
	}
}

// TestUnreachable is about hosts that do not answer as they should before a login.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	dial := func(address string, port int) error {
		_, err := m.dial(t, inventory.Host{Name: "web1", Address: address, Login: inventory.Login{Port: port, User: "root"}})
		return err
	}
	faultOf(t, dial("127.0.0.1", freePort(t)), login.Refused, "root@127.0.0.1:", "nothing listens")
	faultOf(t, dial("no-such-host.invalid", 22), login.Unreachable, `no address is known for the name "no-such-host.invalid"`)

	// It accepts connections and says nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	patient := m.o.Timeout
	m.o.Timeout = 2 * time.Second // only where it has to expire
	faultOf(t, dial("127.0.0.1", l.Addr().(*net.TCPAddr).Port), login.Timeout, "said nothing for 2s")
	m.o.Timeout = patient

	// It is not an sshd.
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := web.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			conn.Close()
		}
	}()
	faultOf(t, dial("127.0.0.1", web.Addr().(*net.TCPAddr).Port), login.Protocol, `no sshd: "HTTP/1.1 400 Bad Request"`)
	web.Close()
	<-done
}

// TestDropped simulates what sshd does with bursts (MaxStartups): it hangs up on some clients
// before it has said anything.
func TestDropped(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	p := newProxy(t, s.address())
	h := hostOf(s)
	h.Port = p.port()
	m.knows(t, "127.0.0.1:"+itoa(p.port()), s.host.PublicKey())
	p.set(func() { p.drops = 3 })
	m.o.Retry = 10 * time.Millisecond
	d := m.dialer(t)
	c, err := d.Dial(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p.set(func() {
		if p.taken != 4 {
			t.Errorf("connected %d times, want 4", p.taken)
		}
		p.drops = 1000
	})
	_, err = d.Dial(t.Context(), h)
	faultOf(t, err, login.Dropped, "hung up before it said who it is, 6 times", "MaxStartups")
}

// TestBurst opens many connections at once to an sshd that drops some from the fourth login in
// progress on, and all from the seventh.
func TestBurst(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "MaxStartups 3:50:6", m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	m.o.Retry = 500 * time.Millisecond // the last attempt is made long after the burst, also on a busy machine
	d := m.dialer(t)
	const many = 24
	errs := make(chan error, many)
	for range many {
		go func() {
			c, err := d.Dial(t.Context(), hostOf(s))
			if err == nil {
				err = c.Close()
			}
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	h := hostOf(s)
	print := ssh.FingerprintSHA256(s.host.PublicKey())

	_, err := m.dial(t, h)
	faultOf(t, err, login.HostKey, print, "is not known in "+m.file("known_hosts"), "ssh:setup -hosts=web1", "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
	if _, err := os.Stat(m.file("known_hosts")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("known_hosts was touched: %v", err)
	}

	h.HostKeys = "accept-new"
	m.mustDial(t, h)
	if len(m.said) != 1 || !strings.Contains(m.said[0], print) {
		t.Errorf("said %q, want the fingerprint once", m.said)
	}
	h.HostKeys = "strict"
	m.mustDial(t, h)

	// A host that was re-created, or somebody in the middle.
	other := newKey(t, filepath.Join(t.TempDir(), "other"), "")
	if err := os.Remove(m.file("known_hosts")); err != nil {
		t.Fatal(err)
	}
	m.knows(t, "192.0.2.1:22", other.PublicKey())
	m.knows(t, s.address(), other.PublicKey())
	for _, h.HostKeys = range []string{"strict", "accept-new"} {
		_, err = m.dial(t, h)
		faultOf(t, err, login.HostKey, "its key has changed", print, ssh.FingerprintSHA256(other.PublicKey()), "known_hosts:2 ", "ssh-keygen -R \"[127.0.0.1]:"+itoa(s.port))
	}
}

// TestHostKeyOfOtherKind has only the RSA key in known_hosts of a server that also has an Ed25519
// key: that is no mismatch.
func TestHostKeyOfOtherKind(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	dir := t.TempDir()
	rsaFile := filepath.Join(dir, "rsa")
	keygen(t, "-t", "rsa", "-b", "3072", "-f", rsaFile, "-N", "")
	s := newServer(t, "HostKey "+rsaFile, m.key.PublicKey())
	text, err := os.ReadFile(rsaFile + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	m.knows(t, s.address(), public)
	m.mustDial(t, hostOf(s))
	// A known key of a kind that the server no longer has is a change too.
	other := newServer(t, "", m.key.PublicKey())
	m.knows(t, other.address(), public)
	_, err = m.dial(t, hostOf(other))
	faultOf(t, err, login.HostKey, "its key has changed")
}

func TestRemember(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	h := hostOf(s)
	h.HostKeys = "accept-new"
	// The last line is hashed and has no newline at its end.
	hashed := "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.host.PublicKey())))
	if err := os.WriteFile(m.file("known_hosts"), []byte(hashed), 0o600); err != nil {
		t.Fatal(err)
	}
	m.mustDial(t, h)
	text, err := os.ReadFile(m.file("known_hosts"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || lines[0] != hashed || !strings.HasPrefix(lines[1], "|1|") || strings.Contains(lines[1], "127.0.0.1") {
		t.Errorf("got %q", lines)
	}
	h.HostKeys = "strict"
	m.mustDial(t, h)
}

func TestKnownHostsBroken(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	if err := os.WriteFile(m.file("known_hosts"), []byte("# fine\nweb1 ssh-ed25519 not-base64!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := m.dial(t, hostOf(s))
	if err == nil || !strings.Contains(err.Error(), "known_hosts:2") || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("got %v", err)
	}
}

func TestCancelWhileDialing(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	d := m.dialer(t)
	ended := make(chan error, 1)
	go func() {
		_, err := d.Dial(ctx, inventory.Host{Name: "web1", Address: "127.0.0.1", Login: inventory.Login{Port: l.Addr().(*net.TCPAddr).Port, User: "root"}})
		ended <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	m.o.KeepAlive = 2 * time.Second
	s := newServer(t, "", m.key.PublicKey())
	p := newProxy(t, s.address())
	h := hostOf(s)
	h.Port = p.port()
	m.knows(t, "127.0.0.1:"+itoa(p.port()), s.host.PublicKey())
	c := m.mustDial(t, h)
	run(t, c, host.Command{Script: "sleep 8"}) // longer than three misses
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), host.Command{Script: "sleep 60"})
		ended <- err
	}()
	p.set(func() { p.hung = true })
	faultOf(t, <-ended, login.Lost, "no answer for 6s")
	_, err := c.Run(t.Context(), host.Command{Script: "true"})
	faultOf(t, err, login.Lost)
}

func TestCut(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	p := newProxy(t, s.address())
	h := hostOf(s)
	h.Port = p.port()
	m.knows(t, "127.0.0.1:"+itoa(p.port()), s.host.PublicKey())
	c := m.mustDial(t, h)
	begun, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), host.Command{Script: "cat", Stdin: begun})
		ended <- err
	}()
	w.Write([]byte("it runs\n"))
	p.cut()
	faultOf(t, <-ended, login.Lost, "the connection was cut")
	w.Close()
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	conn, err := c.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 5)
	if _, err := io.ReadFull(conn, buffer); err != nil || string(buffer) != "hello" {
		t.Fatalf("got %q, %v", buffer, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: got %v", err)
	}
	if _, err := c.DialContext(t.Context(), "tcp", "127.0.0.1:"+itoa(freePort(t))); err == nil || !strings.Contains(err.Error(), "refused") || errors.Is(err, login.ErrForbidden) {
		t.Errorf("nothing listens: got %v", err)
	}

	c = connected(t, "AllowTcpForwarding no")
	if _, err := c.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, login.ErrForbidden) {
		t.Errorf("forbidden: got %v", err)
	}
}

// TestClosedUnderLoad closes a connection while commands run and others wait for a session, and
// expects all of them to end.
func TestClosedUnderLoad(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	ended, running := make(chan error, 20), t.TempDir()
	for range cap(ended) {
		go func() {
			_, err := c.Run(t.Context(), host.Command{Script: "mktemp -p " + running + "; sleep 300"})
			ended <- err
		}()
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if files, err := os.ReadDir(running); err != nil {
			t.Fatal(err)
		} else if len(files) == maxSessions {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d commands run, want %d", len(files), maxSessions)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range cap(ended) {
		faultOf(t, <-ended, login.Lost)
	}
}
