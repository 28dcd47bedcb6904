package drain

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rig is a server that counts what it carries out, and its Drainer.
type rig struct {
	t      *testing.T
	addr   string
	drain  *Drainer
	done   atomic.Int64 // requests carried out
	hold   chan struct{}
	served chan error
}

func newRig(t *testing.T, encrypt *tls.Config) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, l, encrypt)
}

func newRigOn(t *testing.T, l net.Listener, encrypt *tls.Config) *rig {
	t.Helper()
	r := &rig{t: t, addr: l.Addr().String(), hold: make(chan struct{}), served: make(chan error, 1)}
	server := &http.Server{IdleTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		if req.URL.Path == "/hold" {
			<-r.hold
		}
		r.done.Add(1)
		fmt.Fprint(w, "done")
	})}
	r.drain = New(server)
	l = r.drain.Listener(l, encrypt != nil)
	if encrypt != nil {
		l = tls.NewListener(l, encrypt)
	}
	go func() { r.served <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// drainNow drains and returns how many connections were cut off.
func (r *rig) drainNow(linger, patience time.Duration) <-chan int {
	cut := make(chan int, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		n := r.drain.Drain(ctx, linger)
		if err := r.drain.Served(<-r.served); err != nil {
			r.t.Errorf("served: %v", err)
		}
		cut <- n
	}()
	return cut
}

// raw is a client that does nothing automatically.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func (r *rig) dial() *raw {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return &raw{c, bufio.NewReader(c)}
}

func (c *raw) ask(path string) (*http.Response, error) {
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", path); err != nil {
		return nil, err
	}
	return c.answer()
}

func (c *raw) answer() (*http.Response, error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

func mustAsk(t *testing.T, c *raw, path string, wantClose bool) {
	t.Helper()
	resp, err := c.ask(path)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Close != wantClose {
		t.Errorf("status %d, close %v, want 200 and %v", resp.StatusCode, resp.Close, wantClose)
	}
}

func TestNothingToDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if cut := <-r.drainNow(time.Hour, time.Minute); cut != 0 {
		t.Errorf("%d connections cut, want none", cut)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("it still listens")
	}
}

// An open connection gets its answer, with the notice that it is the last one.
func TestIdleConnectionIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.dial()
	mustAsk(t, c, "/", false)
	cut := r.drainNow(time.Hour, time.Minute)
	for !r.drain.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	newcomer := r.dial() // while the first is not told, others are served
	mustAsk(t, newcomer, "/", true)
	mustAsk(t, c, "/", true)
	_ = c.Close()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections cut, want none", n)
	}
}

// A connection that stays silent is closed: the client sees its end, and what it sends
// after that is neither carried out nor answered with a reset.
func TestSilentConnectionIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, unused := r.dial(), r.dial()
	mustAsk(t, c, "/", false)
	for len(r.drain.open()) < 2 { // connections not accepted before the listener closes are reset
		time.Sleep(time.Millisecond)
	}
	cut := r.drainNow(20*time.Millisecond, time.Minute)
	for _, c := range []*raw{c, unused} {
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Errorf("got %v, want the end of the connection", err)
		}
	}
	if resp, err := c.ask("/"); err == nil || errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the end: %v, %v", resp, err)
	}
	_, _ = c.Close(), unused.Close()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections cut, want none", n)
	}
	if n := r.done.Load(); n != 1 {
		t.Errorf("%d requests carried out, want 1", n)
	}
}

// A running request is waited for, whenever it began, and so is one that comes in pieces.
func TestRequestUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	held, slow := r.dial(), r.dial()
	fmt.Fprint(held, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	fmt.Fprint(slow, "POST / HTTP/1.1\r\nHo")
	for busyConns(r.drain) < 2 {
		time.Sleep(time.Millisecond)
	}
	cut := r.drainNow(10*time.Millisecond, time.Minute)
	for !hasClosedListeners(r.addr) {
		time.Sleep(time.Millisecond)
	}
	fmt.Fprint(slow, "st: x\r\nContent-Length: 2\r\n\r\nhi")
	close(r.hold)
	for _, c := range []*raw{held, slow} {
		if resp, err := c.answer(); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("answer: %v, %v", resp, err)
		}
		_ = c.Close()
	}
	if n := <-cut; n != 0 {
		t.Errorf("%d connections cut, want none", n)
	}
}

func busyConns(d *Drainer) (n int) {
	for _, c := range d.open() {
		if c.state.Load() == busy {
			n++
		}
	}
	return n
}

func hasClosedListeners(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return true
	}
	_ = c.Close()
	return false
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.dial()
	fmt.Fprint(c, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	for busyConns(r.drain) < 1 {
		time.Sleep(time.Millisecond)
	}
	if n := <-r.drainNow(0, 50*time.Millisecond); n != 1 {
		t.Errorf("%d connections cut, want 1", n)
	}
	if _, err := c.answer(); err == nil {
		t.Error("an answer came after all")
	}
	close(r.hold)
}

// Pipelined requests: the first is answered, and its answer arrives.
func TestPipelined(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.dial()
	mustAsk(t, c, "/", false)
	cut := r.drainNow(time.Hour, time.Minute)
	for !r.drain.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	const one = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	fmt.Fprint(c, strings.Repeat(one, 50))
	resp, err := c.answer()
	if err != nil || !resp.Close {
		t.Fatalf("answer: %v, %v", resp, err)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("after the last answer: %v, want the end", err)
	}
	_ = c.Close()
	<-cut
	if n := r.done.Load(); n != 2 {
		t.Errorf("%d requests carried out, want 2", n)
	}
}
