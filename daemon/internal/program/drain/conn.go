package drain

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

// The states of a connection. Each change is one compare-and-swap, so that a connection
// either is closed or begins a request, never both.
const (
	fresh   uint32 = iota // accepted, nothing received
	idle                  // an answer was sent, nothing received since
	busy                  // a request is being received or answered
	closing               // further requests are not carried out
)

// conn is a connection that records when its requests begin and end.
type conn struct {
	wrap.Conn
	d         *Drainer
	encrypted bool // bytes read need not be a request: net/http says when one begins
	state     atomic.Uint32
	since     atomic.Int64 // Unix nanoseconds: accepted, or last answered
	closed    sync.Once
	deadline  sync.Mutex // held while a read deadline is set
}

// begin notes that a request begins; false: it is too late for that.
func (c *conn) begin() bool {
	for {
		switch s := c.state.Load(); s {
		case busy:
			return true
		case closing:
			return false
		default:
			if c.state.CompareAndSwap(s, busy) {
				return true
			}
		}
	}
}

// changed is called by net/http. With HTTP/2 a connection is active while it has streams.
func (c *conn) changed(state http.ConnState) {
	switch state {
	case http.StateActive:
		c.begin()
	case http.StateIdle:
		c.since.Store(time.Now().UnixNano())
		c.state.CompareAndSwap(busy, idle)
	}
}

// closeIfSilent ends the connection unless a request has begun on it. A pending Read gets an
// error, and net/http then calls Close.
func (c *conn) closeIfSilent() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.state.CompareAndSwap(idle, closing) || c.state.CompareAndSwap(fresh, closing) {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// errClosing ends a Read of a connection that is being closed. It is the error that a pending Read
// gets; net/http answers others with "400 Bad Request", which a client would take for the
// answer to the request that it is just sending.
var errClosing = os.ErrDeadlineExceeded

func (c *conn) Read(p []byte) (int, error) {
	if c.state.Load() == closing {
		return 0, errClosing
	}
	n, err := c.Conn.Read(p)
	switch {
	case n == 0:
		return n, err
	case c.encrypted && c.state.Load() != closing:
		return n, err
	case c.encrypted || !c.begin():
		return 0, errClosing
	}
	return n, err
}

// SetReadDeadline does not undo the deadline set by closeIfSilent.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.state.Load() == closing {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close closes the connection. While draining it ends the sending half first and waits
// for the client to do the same: if both were closed at once, the system would answer late
// data with a reset, which can overtake the answer that was sent before.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.closed.Do(func() {
		defer c.d.forget(c)
		c.state.Store(closing)
		if c.d.draining.Load() && c.CloseWrite() == nil && c.Conn.SetReadDeadline(time.Now().Add(closeGrace)) == nil {
			_, _ = io.Copy(io.Discard, c.Conn)
		}
		err = c.Conn.Close()
	})
	return err
}
