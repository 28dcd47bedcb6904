package apitest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pipes"
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
	l := pipes.Listen()
	l.Pair = func() (here, there net.Conn) {
		thereIn, hereOut := net.Pipe()
		hereIn, thereOut := net.Pipe()
		return twoWay{hereIn, hereOut}, twoWay{thereIn, thereOut}
	}
	r.HTTP = &httptest.Server{Listener: l, Config: &http.Server{Handler: r}}
	r.HTTP.Start()
	r.connect = func() (net.Conn, error) { return l.Dial(context.Background(), "", "") }
	r.HTTP.Client().Transport = &http.Transport{
		DisableKeepAlives: true, // an idle connection would keep a goroutine
		DialContext:       l.Dial,
	}
}

// twoWay is a connection of which, as with TCP, each direction can end separately.
type twoWay struct {
	net.Conn // to read from
	out      net.Conn
}

func (p twoWay) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p twoWay) CloseWrite() error                  { return p.out.Close() }
func (p twoWay) Close() error                       { return errors.Join(p.Conn.Close(), p.out.Close()) }
func (p twoWay) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
func (p twoWay) SetDeadline(t time.Time) error {
	return errors.Join(p.Conn.SetReadDeadline(t), p.out.SetWriteDeadline(t))
}
