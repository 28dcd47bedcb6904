package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// internet is a separate network: its servers have public addresses, and so has the machine of the
// program. So the program runs as on a server, without permission to call private addresses.
type internet struct {
	t    *testing.T
	here string // the process whose network is that of the program's machine
}

// The addresses of servers.
const (
	badHost  = "93.184.215.14"
	goodHost = "93.184.215.15"
)

// newInternet makes the network. From now on this goroutine listens and runs on the side of the
// servers; its thread ends with it.
func newInternet(t *testing.T) *internet {
	t.Helper()
	runtime.LockOSThread()
	before := netOf(t, "thread-self")
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatalf("a network of its own: %v\nhint: run as root", err)
	}
	n := &internet{t: t}
	machine := exec.Command("unshare", "-n", "sleep", "infinity")
	machine.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := machine.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = machine.Process.Kill(); _ = machine.Wait() })
	n.here = strconv.Itoa(machine.Process.Pid)
	servers := netOf(t, "thread-self")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if of := netOf(t, n.here); of != servers && of != before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the machine has no network of its own")
		}
	}
	ip := func(args ...string) {
		if text, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, text)
		}
	}
	ip("link", "set", "lo", "up")
	ip("link", "add", "servers", "type", "veth", "peer", "name", "machine", "netns", n.here)
	for _, host := range []string{badHost, goodHost} {
		ip("addr", "add", host+"/24", "dev", "servers")
	}
	ip("link", "set", "servers", "up")
	for _, args := range []string{"link set lo up", "addr add 93.184.215.1/24 dev machine", "link set machine up"} {
		if text, err := n.command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, text)
		}
	}
	return n
}

func netOf(t *testing.T, process string) string {
	t.Helper()
	name, err := os.Readlink("/proc/" + process + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// command runs something on the machine of the program.
func (n *internet) command(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", n.here, "--net", "--", name}, args...)...)
}

// listen opens a server's port.
func (n *internet) listen(host string) net.Listener {
	n.t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = l.Close() })
	return l
}

// speak starts a server that answers each request as it likes, but has no robots.txt.
func (n *internet) speak(say func(conn net.Conn)) string {
	l := n.listen(badHost)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				head := make([]byte, 0, 4096)
				for !bytes.Contains(head, []byte("\r\n\r\n")) && len(head) < cap(head) {
					k, err := conn.Read(head[len(head):cap(head)])
					if err != nil {
						return
					}
					head = head[:len(head)+k]
				}
				if bytes.HasPrefix(head, []byte("GET /robots.txt ")) {
					_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					return
				}
				say(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/page"
}

// handle starts an HTTP server, with TLS if there is a configuration.
func (n *internet) handle(host string, c *tls.Config, h http.HandlerFunc) string {
	l, scheme := n.listen(host), "http"
	if c != nil {
		l, scheme = tls.NewListener(l, c), "https"
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)} // drops errors of handshakes
	go func() { _ = server.Serve(l) }()                                      // until Close
	n.t.Cleanup(func() { _ = server.Close() })
	return scheme + "://" + l.Addr().String()
}

// peak is the most memory in bytes that a process has held: the process whose command line has the
// address and the role.
func peak(t *testing.T, addr string) int64 {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		line, _ := os.ReadFile(name)
		if !bytes.Contains(line, []byte(addr)) || !bytes.Contains(line, []byte("\x00serve\x00")) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(status)) {
			if f := strings.Fields(l); len(f) == 3 && f[0] == "VmHWM:" {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return kib << 10
			}
		}
	}
	t.Fatalf("no process serves on %s", addr)
	return 0
}
