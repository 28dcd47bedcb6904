//go:build unix

package service_test

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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A caller sends one batch of new items after another, and never sends a batch twice.
type caller struct {
	processtest.Crasher
	send  func(body string) (answer string, err error)
	pause time.Duration // the longest time without an answer
}

func (c *caller) call() error {
	r := [2]int{c.Next, c.Next + 1 + rand.IntN(50)}
	c.Next = r[1]
	start := time.Now()
	answer, err := c.send(c.Body(r))
	if err != nil {
		return fmt.Errorf("client %d, items %v: %w", c.ID, r, err)
	}
	c.pause = max(c.pause, time.Since(start))
	var got client.FilterResult[string]
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Total != r[1]-r[0] || len(got.URIList) != got.Total {
		return fmt.Errorf("client %d, items %v: want all of them new, got %.200s", c.ID, r, answer)
	}
	c.Acked = append(c.Acked, r)
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

// goSender is Go's client, with a body that it cannot resend automatically.
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

// The daemon behind a socket is restarted several times under load: no client sees an error,
// and each item is new exactly once.
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
	authority := certtest.New(t, "authority")
	pair, roots := authority.Issue(t, "daemon", time.Hour, "127.0.0.1"), authority.Roots()
	var senders []func(addr string) func(string) (string, error)
	for id := range 8 {
		senders = append(senders, func(addr string) func(string) (string, error) {
			return goSender(t, "https://"+addr, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: id%2 == 0})
		})
	}
	restartUnderLoad(t, restarts, []string{"URIFILTER_TLS_CERT_FILE=" + pair.Cert, "URIFILTER_TLS_KEY_FILE=" + pair.Key}, senders)
}

func restartUnderLoad(t *testing.T, restarts int, env []string, senders []func(addr string) func(string) (string, error)) {
	t.Helper()
	dir, sockets := t.TempDir(), []*os.File{processtest.SocketFile(t)}
	p := processtest.BeginOn(t, sockets, dir, env)
	p.AwaitLog(`"msg":"ready"`)
	var callers []*caller
	for id, sender := range senders {
		callers = append(callers, &caller{Crasher: processtest.Crasher{ID: id}, send: sender(p.Addr)})
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
		if err := p.End(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM: %v\n%s", err, p.Log)
		}
		if strings.Contains(p.Log.String(), "cut off") {
			t.Errorf("requests were cut off:\n%s", p.Log)
		}
		p = processtest.BeginOn(t, sockets, dir, env)
	}
	more()
	close(stop)
	calling.Wait()
	items, pause := 0, time.Duration(0)
	for _, c := range callers {
		pause = max(pause, c.pause)
		for _, r := range c.Acked {
			answer, err := c.send(c.Body(r))
			if err != nil || !strings.Contains(answer, `"uri_list":[]`) {
				t.Fatalf("client %d: of the acknowledged items %v some are new again: %v, %.200s", c.ID, r, err, answer)
			}
			items += r[1] - r[0]
		}
	}
	t.Logf("%d restarts, %d requests, %d items, each new once; the longest wait for an answer was %s", restarts, answered.Load(), items, pause.Round(time.Millisecond))
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
}

// Two sockets are both served; one that other machines can reach requires tokens.
func TestSocketsHandedOver(t *testing.T) {
	t.Parallel()
	p := processtest.BeginOn(t, []*os.File{processtest.SocketFile(t), processtest.SocketFile(t)}, t.TempDir(), nil).AwaitReady()
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
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
	p = processtest.BeginOn(t, []*os.File{open}, t.TempDir(), []string{"URIFILTER_LISTEN=127.0.0.1:1"}, "--listen", "127.0.0.1:1")
	if p.Ended() == nil {
		t.Error("it serves everybody without a token")
	}
	processtest.MustContain(t, p.Log.String(), "without a token", "hint:", "tokens_file")
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
	p = processtest.BeginOn(t, []*os.File{processtest.SocketFile(t), udp}, t.TempDir(), nil)
	if p.Ended() == nil {
		t.Error("it serves on a socket that takes no connections")
	}
	processtest.MustContain(t, p.Log.String(), "socket 2", "hint:")
}
