package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

// script answers each connection with the answers in turn, byte for byte, and counts
// connections and requests.
func script(t *testing.T, answers ...string) (address string, conns, requests *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns, requests = new(atomic.Int32), new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			in := bufio.NewReader(conn)
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					break
				}
				io.Copy(io.Discard, req.Body)
				n := int(requests.Add(1))
				io.WriteString(conn, answers[min(n, len(answers))-1])
				if strings.Contains(answers[min(n, len(answers))-1], "close") {
					break
				}
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String(), conns, requests
}

func TestAnswersOfAnyFraming(t *testing.T) {
	body := `{"uri_list":["a"],"total":1,"duplicates":0}`
	plain := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for name, test := range map[string]struct {
		answer string
		conns  int32 // for three calls
	}{
		"length":         {plain, 1},
		"chunked":        {fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body), 1},
		"with 103":       {"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + plain, 1},
		"then closed":    {fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body), 3},
		"until closed":   {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body, 3},
		"HTTP/1.0":       {fmt.Sprintf("HTTP/1.0 200 OK\r\nContent-Length: %d\r\nX: close\r\n\r\n%s", len(body), body), 3},
		"with a surplus": {plain + "HTTP/1.1 200 OK\r\n", 3},
	} {
		t.Run(name, func(t *testing.T) {
			address, conns, _ := script(t, test.answer)
			c := newClient(t, address)
			for range 3 {
				if got, err := c.Filter(t.Context(), "uri", []string{"a"}); err != nil || !slices.Equal(got, []string{"a"}) {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if n := conns.Load(); n != test.conns {
				t.Errorf("%d connections, want %d", n, test.conns)
			}
			c.Close()
		})
	}
}

func TestNoHTTPIsAnError(t *testing.T) {
	for _, answer := range []string{"", "close\r\n", "HTTP/1.1 abc\r\n\r\nclose", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nclose"} {
		address, _, requests := script(t, answer+"close")
		_, err := newClient(t, address).Filter(t.Context(), "uri", []string{"a"})
		if err == nil || !client.InDoubt(err) || requests.Load() != 1 {
			t.Errorf("%q: got %v after %d requests", answer, err, requests.Load())
		}
	}
}

// A daemon that is restarted closes its connections; the next call must not be in doubt.
func TestDeadConnectionIsNotUsed(t *testing.T) {
	s := clienttest.NewServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	kept, err := l.(*net.TCPListener).File() // as systemd keeps the socket
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	c := newClient(t, l.Addr().String())
	for i := range 20 {
		again, err := net.FileListener(kept)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(s.Handle)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.Serve(again)
		}()
		if got, err := c.Filter(t.Context(), "uri", []string{fmt.Sprint(i)}); err != nil || len(got) != 1 {
			t.Errorf("after restart %d: got %q, %v", i, got, err)
		}
		server.Close()
		<-done
	}
}

// A client that calls all the time finds the other addresses of a name, too, and the daemons that a load
// balancer has got since.
func TestConnectionsAreRenewed(t *testing.T) {
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n" + `{"uri_list":["a"],"total":1,"duplicates":0}`
	calls := func(t *testing.T, address string, made *atomic.Int32) {
		c := newClient(t, address)
		for i, want := range []int32{1, 1, 1, 2, 2, 2, 3} {
			if _, err := c.Filter(t.Context(), "uri", []string{"a"}); err != nil || made.Load() != want {
				t.Errorf("call %d: %d connections, want %d; error %v", i, made.Load(), want, err)
			}
			time.Sleep(20 * time.Second)
		}
		time.Sleep(time.Hour) // idle
		if _, err := c.Filter(t.Context(), "uri", []string{"a"}); err != nil || made.Load() != 4 {
			t.Errorf("after an hour: %d connections, want 4; error %v", made.Load(), err)
		}
	}
	t.Run("quick", func(t *testing.T) {
		address, made, _ := script(t, answer)
		synctest.Test(t, func(t *testing.T) { calls(t, address, made) })
	})
	t.Run("net/http", func(t *testing.T) {
		standard := http.DefaultTransport
		defer func() { http.DefaultTransport = standard }()
		synctest.Test(t, func(t *testing.T) {
			var made, closed atomic.Int32
			dialing := standard.(*http.Transport).Clone()
			dialing.DialContext = func(context.Context, string, string) (net.Conn, error) {
				made.Add(1)
				near, far := net.Pipe()
				go func() {
					defer closed.Add(1)
					for in := bufio.NewReader(far); ; {
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, req.Body)
						io.WriteString(far, answer)
					}
				}()
				return near, nil
			}
			http.DefaultTransport = dialing
			calls(t, "daemon:8000", &made)
			if synctest.Wait(); closed.Load() != 3 {
				t.Errorf("%d of 4 connections are closed, want 3", closed.Load())
			}
		})
	})
}

// A call that has taken a transport just before it was replaced leaves no connection behind, whatever the program has
// set: nobody would close it.
func TestNoConnectionIsLeftBehind(t *testing.T) {
	standard := http.DefaultTransport
	defer func() { http.DefaultTransport = standard }()
	synctest.Test(t, func(t *testing.T) {
		var open, calls atomic.Int32
		dialing := &http.Transport{
			Proxy: func(*http.Request) (*url.URL, error) {
				if calls.Add(1) == 2 {
					time.Sleep(25 * time.Second) // the call has its transport, and no connection yet
				}
				return nil, nil
			},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				open.Add(1)
				near, far := net.Pipe()
				context.AfterFunc(t.Context(), func() { far.Close() })
				go func() {
					defer open.Add(-1)
					for in := bufio.NewReader(far); ; {
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, req.Body)
						io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n"+`{"uri_list":["a"],"total":1,"duplicates":0}`)
					}
				}()
				return near, nil
			},
		}
		http.DefaultTransport = dialing
		c := newClient(t, "daemon:8000")
		call := func() {
			if _, err := c.Filter(t.Context(), "uri", []string{"a"}); err != nil {
				t.Error(err)
			}
		}
		call()
		time.Sleep(40 * time.Second)
		go call()
		time.Sleep(20 * time.Second)
		call() // with a new transport
		time.Sleep(time.Hour)
		if open.Load() != 0 || calls.Load() != 3 {
			t.Errorf("%d connections are open after %d calls, want none after 3", open.Load(), calls.Load())
		}
	})
}

// An answer that a daemon sends before it has read the whole body is received.
func TestEarlyAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clienttest.Problem(w, http.StatusRequestEntityTooLarge, "body_too_large", "", nil)
	}))
	defer server.Close()
	items := []string{strings.Repeat("x", 100<<20)}
	_, err := newClient(t, server.URL, client.WithPatience(0)).Filter(t.Context(), "uri", items)
	var e *client.Error
	if client.InDoubt(err) || errors.As(err, &e) && e.ErrorCode != "body_too_large" || err == nil {
		t.Errorf("got %v, in doubt %t", err, client.InDoubt(err))
	}
}

// Calls with the program's own http.Client or with TLS go through net/http, with the same results.
func TestOwnHTTPClient(t *testing.T) {
	s := clienttest.NewServer(t)
	server := httptest.NewTLSServer(http.HandlerFunc(s.Handle))
	defer server.Close()
	c := newClient(t, server.URL, client.WithHTTPClient(server.Client()), client.WithInDoubt(client.DoubtNew))
	for want := range 2 {
		if got, err := c.Filter(t.Context(), "uri", []string{"a", "b"}); err != nil || len(got) != 2-2*want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got, err := c.Check(t.Context(), "uri", []string{"a", "c"}); err != nil || !slices.Equal(got, []bool{false, true}) {
		t.Errorf("check: got %v, %v", got, err)
	}
	cut := clienttest.NewServer(t)
	cutOnce(cut)
	c = newClient(t, cut.URL, client.WithHTTPClient(&http.Client{}), client.WithInDoubt(client.DoubtSeen))
	if got, err := c.Filter(t.Context(), "uri", []string{"a"}); err != nil || len(got) != 0 || len(cut.Requests()) != 2 {
		t.Errorf("lost answer: got %q, %v after %q", got, err, cut.Requests())
	}
}

// A program may replace the transport of net/http, or its proxy: to trace or to record calls, or to send them
// another way.
func TestReplacedTransportIsUsed(t *testing.T) {
	s := clienttest.NewServer(t)
	standard := http.DefaultTransport
	defer func() { http.DefaultTransport = standard }()
	through := 0
	proxied := standard.(*http.Transport).Clone()
	proxied.Proxy = func(*http.Request) (*url.URL, error) {
		through++
		return url.Parse(s.URL)
	}
	dialing := standard.(*http.Transport).Clone()
	var dialed atomic.Bool
	dialing.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Store(true)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	for name, transport := range map[string]http.RoundTripper{
		"wrapped": roundTripper(func(r *http.Request) (*http.Response, error) {
			through++
			return standard.RoundTrip(r)
		}),
		"proxied": proxied,
		"dialing": dialing,
	} {
		http.DefaultTransport, through = transport, 0
		got, err := newClient(t, s.URL).Filter(t.Context(), "uri", []string{name})
		if err != nil || len(got) != 1 || through == 0 && !dialed.Swap(false) {
			t.Errorf("%s: got %q, %v, and it was not used", name, got, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTokenIsNoHeader(t *testing.T) {
	if _, err := client.New("h", client.WithToken("a\r\nX: y")); err == nil || strings.Contains(err.Error(), "X: y") {
		t.Errorf("got %v, want a refusal that does not show the token", err)
	}
}
