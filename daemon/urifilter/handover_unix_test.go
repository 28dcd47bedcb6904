//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

// beginOn starts the daemon with sockets that it is handed as systemd does it.
func beginOn(t testing.TB, sockets []*os.File, dir string, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	// The variable names the process that is meant, whose number exec keeps.
	p := &process{t: t, addr: addr, log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$@"`, "sh", path, "serve", "--listen", addr, "--data-dir", dir}, args...)...)
	p.cmd.Env = append(append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(sockets))), env...)
	p.cmd.ExtraFiles, p.cmd.Stderr = sockets, p.log
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

func socketFile(t testing.TB) *os.File {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// A caller sends one batch of new items after the other, and never one of them twice.
type caller struct {
	crasher
	send  func(body string) (answer string, err error)
	pause time.Duration // the longest time without an answer
}

func (c *caller) call() error {
	r := [2]int{c.next, c.next + 1 + rand.IntN(50)}
	c.next = r[1]
	start := time.Now()
	answer, err := c.send(c.body(r))
	if err != nil {
		return fmt.Errorf("client %d, items %v: %w", c.id, r, err)
	}
	c.pause = max(c.pause, time.Since(start))
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Total != r[1]-r[0] || len(got.URIList) != got.Total {
		return fmt.Errorf("client %d, items %v: want all of them new, got %.200s", c.id, r, answer)
	}
	c.acked = append(c.acked, r)
	return nil
}

// rawSender is a client that keeps its connection until it is told to close it, and
// sends nothing twice.
func rawSender(addr string) func(string) (string, error) {
	var conn net.Conn
	var in *bufio.Reader
	return func(body string) (string, error) {
		if conn == nil {
			var err error
			if conn, err = net.Dial("tcp", addr); err != nil {
				return "", err
			}
			in = bufio.NewReader(conn)
		}
		if _, err := fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			return "", err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return "", err
		}
		answer, err := io.ReadAll(resp.Body)
		if resp.Close {
			_ = conn.Close()
			conn = nil
		}
		return string(answer), errors.Join(err, resp.Body.Close())
	}
}

// goSender is Go's client, with a body that it cannot send again by itself.
func goSender(t *testing.T, url string, transport *http.Transport) func(string) (string, error) {
	t.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport}
	return func(body string) (string, error) {
		resp, err := c.Post(url+"/api/v1/filter", "application/json", io.LimitReader(strings.NewReader(body), int64(len(body))))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		return string(answer), err
	}
}

// The daemon behind a socket is stopped and started again under load, several times:
// no client sees an error, and each item is new exactly once.
func TestRestartLosesNoRequest(t *testing.T)       { restartPlain(t, 2) }
func TestSystemRestartLosesNoRequest(t *testing.T) { restartPlain(t, 6) }

func restartPlain(t *testing.T, restarts int) {
	t.Parallel()
	var senders []func(addr string) func(string) (string, error)
	for id := range 12 {
		if id%2 == 0 {
			senders = append(senders, rawSender)
		} else {
			senders = append(senders, func(addr string) func(string) (string, error) {
				return goSender(t, "http://"+addr, &http.Transport{})
			})
		}
	}
	restartUnderLoad(t, restarts, nil, senders)
}

// The same over TLS, with clients of HTTP/2 and of HTTP/1.1.
func TestRestartLosesNoRequestTLS(t *testing.T)       { restartTLS(t, 2) }
func TestSystemRestartLosesNoRequestTLS(t *testing.T) { restartTLS(t, 6) }

func restartTLS(t *testing.T, restarts int) {
	t.Parallel()
	cert, key, roots := selfSigned(t, "first")
	var senders []func(addr string) func(string) (string, error)
	for id := range 8 {
		senders = append(senders, func(addr string) func(string) (string, error) {
			return goSender(t, "https://"+addr, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: id%2 == 0})
		})
	}
	restartUnderLoad(t, restarts, []string{"URIFILTER_TLS_CERT_FILE=" + cert, "URIFILTER_TLS_KEY_FILE=" + key}, senders)
}

func restartUnderLoad(t *testing.T, restarts int, env []string, senders []func(addr string) func(string) (string, error)) {
	t.Helper()
	dir, sockets := t.TempDir(), []*os.File{socketFile(t)}
	p := beginOn(t, sockets, dir, env)
	p.awaitListening()
	var callers []*caller
	for id, sender := range senders {
		callers = append(callers, &caller{crasher: crasher{id: id}, send: sender(p.addr)})
	}
	var answered atomic.Int64
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for i, c := range callers {
		calling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.call(); err != nil {
					t.Error(err)
					return
				}
				answered.Add(1)
				if i >= 2*len(callers)/3 { // some are not in a hurry
					time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				}
			}
		})
	}
	more := func() {
		for before := answered.Load(); answered.Load() < before+500 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	for range restarts {
		more()
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v\n%s", err, p.log)
		}
		if strings.Contains(p.log.String(), "cut off") {
			t.Errorf("requests were cut off:\n%s", p.log)
		}
		p = beginOn(t, sockets, dir, env)
	}
	more()
	close(stop)
	calling.Wait()
	items, pause := 0, time.Duration(0)
	for _, c := range callers {
		pause = max(pause, c.pause)
		for _, r := range c.acked {
			answer, err := c.send(c.body(r))
			if err != nil || !strings.Contains(answer, `"uri_list":[]`) {
				t.Fatalf("client %d: of the acknowledged items %v some are new again: %v, %.200s", c.id, r, err, answer)
			}
			items += r[1] - r[0]
		}
	}
	t.Logf("%d restarts, %d requests, %d items, each new once; the longest wait for an answer was %s", restarts, answered.Load(), items, pause.Round(time.Millisecond))
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
}

// awaitListening waits until the daemon takes connections off its socket.
func (p *process) awaitListening() {
	p.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(p.log.String(), `"msg":"ready"`); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not ready after 2 min\n%s", p.log)
		}
	}
}

// Two sockets are both served; one that other machines reach wants tokens.
func TestSocketsHandedOver(t *testing.T) {
	t.Parallel()
	p := beginOn(t, []*os.File{socketFile(t), socketFile(t)}, t.TempDir(), nil).awaitReady()
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	p = beginOn(t, []*os.File{open}, t.TempDir(), []string{"URIFILTER_LISTEN=127.0.0.1:1"}, "--listen", "127.0.0.1:1")
	<-p.done
	if p.err == nil {
		t.Error("it serves everybody without a token")
	}
	mustContain(t, p.log.String(), "without a token", "hint:", "tokens_file")
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	udp, err := datagrams.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	p = beginOn(t, []*os.File{socketFile(t), udp}, t.TempDir(), nil)
	<-p.done
	mustContain(t, p.log.String(), "socket 2", "hint:")
}
