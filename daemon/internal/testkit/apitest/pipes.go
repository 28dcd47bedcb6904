package apitest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
)

// Piped is New for a test in a bubble of testing/synctest, whose clock advances when all
// goroutines wait: waiting takes no time, and no machine is too slow for a limit. Its
// connections are pipes of this process, since the clock does not wait for data in the kernel.
func Piped(t testing.TB, change ...func(*api.Options)) *Rig {
	t.Helper()
	mem := &MemStore{}
	r := serveRig(t, mem, serveOverPipes, change...)
	r.Store = mem
	return r
}

func serveOverPipes(r *Rig) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	r.HTTP = &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
	r.HTTP.Start()
	r.connect = l.dial
	r.HTTP.Client().Transport = &http.Transport{
		DisableKeepAlives: true, // an idle connection would keep a goroutine
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return l.dial() },
	}
}

// pipeListener accepts connections that are pipes.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// pipes is a connection of which, as with TCP, each direction can end separately.
type pipes struct {
	net.Conn // to read from
	out      net.Conn
}

func (p pipes) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p pipes) CloseWrite() error                  { return p.out.Close() }
func (p pipes) Close() error                       { return errors.Join(p.Conn.Close(), p.out.Close()) }
func (p pipes) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
func (p pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.Conn.SetReadDeadline(t), p.out.SetWriteDeadline(t))
}

func (l *pipeListener) dial() (net.Conn, error) {
	thereIn, hereOut := net.Pipe()
	hereIn, thereOut := net.Pipe()
	here, there := pipes{hereIn, hereOut}, pipes{thereIn, thereOut}
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*pipeListener) Addr() net.Addr { return pipeAddr{} }

// pipeAddr looks like an address of this machine, as the daemon requires of its callers.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "127.0.0.1:1" }
