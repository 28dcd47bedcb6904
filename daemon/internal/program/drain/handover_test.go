package drain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clients without retries send on their own connections while one server after another
// takes over the port: each request is answered, and carried out once.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for name, newClient := range map[string]func(t *testing.T, addr string) func() error{
		"raw":       rawClient,
		"transport": transportClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer port.Close()
			var carried, answered atomic.Int64
			stop := make(chan struct{})
			var clients sync.WaitGroup
			for range 8 {
				ask := newClient(t, port.Addr().String())
				clients.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := ask(); err != nil {
							t.Errorf("after %d answers: %v", answered.Load(), err)
							return
						}
						answered.Add(1)
					}
				})
			}
			const servers = 10
			for i := range servers {
				dup, err := port.(*net.TCPListener).File()
				if err != nil {
					t.Fatal(err)
				}
				l, err := net.FileListener(dup)
				if err != nil {
					t.Fatal(err)
				}
				_ = dup.Close()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					carried.Add(1)
					fmt.Fprint(w, "done")
				})}
				d := New(server)
				served := make(chan error, 1)
				go func() { served <- server.Serve(d.Listener(l, false)) }()
				before := answered.Load()
				for deadline := time.Now().Add(2 * time.Minute); answered.Load() < before+200 && time.Now().Before(deadline) && !t.Failed(); {
					time.Sleep(time.Millisecond)
				}
				if i == servers-1 { // it has no successor
					close(stop)
					clients.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				linger := time.Minute // closing one that a busy client is about to use would be a fault of the test
				if i == servers-1 {
					linger = 20 * time.Millisecond
				}
				if cut := d.Drain(ctx, linger); cut != 0 {
					t.Errorf("%d connections cut", cut)
				}
				cancel()
				if err := d.Served(<-served); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d requests over %d servers", answered.Load(), servers)
			if carried.Load() != answered.Load() {
				t.Errorf("%d requests carried out, %d answered", carried.Load(), answered.Load())
			}
		})
	}
}

func rawClient(t *testing.T, addr string) func() error {
	var c *raw
	return func() error {
		if c == nil {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			c = &raw{conn, bufio.NewReader(conn)}
			t.Cleanup(func() { _ = conn.Close() })
		}
		resp, err := c.ask("/")
		if err != nil {
			return err
		}
		if resp.Close {
			err = c.Close()
			c = nil
		}
		return err
	}
}

func transportClient(t *testing.T, addr string) func() error {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func() error {
		// A body that cannot be sent twice: the transport must not repeat it.
		resp, err := client.Post("http://"+addr+"/", "text/plain", io.LimitReader(strings.NewReader("hi"), 2))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
}

// HTTP/2: the first answer while draining tells the client to leave, and ends no request.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	helper := httptest.NewUnstartedServer(nil)
	helper.EnableHTTP2 = true
	helper.StartTLS()
	defer helper.Close()
	r := newRig(t, helper.TLS)
	client := helper.Client()
	ask := func() (*http.Response, error) {
		resp, err := client.Post("https://"+r.addr+"/", "text/plain", io.LimitReader(strings.NewReader("hi"), 2))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return resp, err
	}
	for range 3 {
		if resp, err := ask(); err != nil || resp.ProtoMajor != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	cut := r.drainNow(time.Hour, time.Minute)
	for !r.drain.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	if _, err := ask(); err != nil {
		t.Errorf("while draining: %v", err)
	}
	if n := <-cut; n != 0 {
		t.Errorf("%d connections cut", n)
	}
	if n := r.done.Load(); n != 4 {
		t.Errorf("%d requests carried out, want 4", n)
	}
}
