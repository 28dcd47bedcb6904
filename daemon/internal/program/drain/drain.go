// Package drain ends an http.Server without losing a request.
//
// http.Server.Shutdown closes connections that are idle at that moment, so a client that is
// just sending its next request gets a reset. Here every client is told first: while
// draining, each answer closes its connection ("Connection: close", in HTTP/2 GOAWAY), new
// connections are still accepted, and a connection is closed only after it has been silent
// for a while, its sending half first. A request that crosses that close is not carried out,
// so it is safe to send it again; its client sees the end of the connection and no reset.
//
// It starts no server, and its only decision about listeners is when to close them.
package drain

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

const (
	// tick is how often Drain looks at the connections.
	tick = 5 * time.Millisecond
	// closeGrace is how long a client may take to close its half of a connection whose
	// other half is closed. It covers a round trip over a long distance.
	closeGrace = 500 * time.Millisecond
)

// Drainer watches over the connections of one http.Server. It is safe for concurrent use.
type Drainer struct {
	server   *http.Server
	next     http.Handler
	draining atomic.Bool

	mu        sync.Mutex
	listeners []*listener
	conns     map[*conn]struct{}
}

// New takes over server: it wraps its Handler and uses its ConnState and ConnContext,
// which must be nil; the latter becomes [wrap.Context]. It must be called before the server serves.
func New(server *http.Server) *Drainer {
	d := &Drainer{server: server, next: server.Handler, conns: map[*conn]struct{}{}}
	server.Handler = http.HandlerFunc(d.serve)
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if c := wrap.Find[*conn](c); c != nil {
			c.changed(state)
		}
	}
	server.ConnContext = wrap.Context
	return d
}

// Listener registers l and its connections with d. The server must serve on the returned
// listener; encrypted says that TLS will be put on it. It must be called before any call of
// Drain, which neither closes nor waits for an unregistered listener.
func (d *Drainer) Listener(l net.Listener, encrypted bool) net.Listener {
	own := &listener{Listener: l, d: d, encrypted: encrypted}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners = append(d.listeners, own)
	return own
}

type listener struct {
	net.Listener
	d         *Drainer
	encrypted bool
	ended     atomic.Bool // Accept returns no more connections
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if errors.Is(err, net.ErrClosed) {
			l.ended.Store(true)
		}
		return nil, err
	}
	own := &conn{Conn: wrap.Conn{Conn: c}, d: l.d, encrypted: l.encrypted}
	own.since.Store(time.Now().UnixNano())
	l.d.mu.Lock()
	l.d.conns[own] = struct{}{}
	l.d.mu.Unlock()
	return own, nil
}

// serve is the handler that wraps the server's own.
func (d *Drainer) serve(w http.ResponseWriter, r *http.Request) {
	if c := wrap.Of[*conn](r.Context()); c != nil && !c.begin() {
		panic(http.ErrAbortHandler) // the answer can no longer be sent
	}
	if d.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	d.next.ServeHTTP(w, r)
}

// Drain answers requests until every connection that is open now has ended, at most for
// linger plus the time to close them. Then it closes the listeners, waits for the running
// requests, and returns. A connection that has been silent for linger is closed. If ctx ends
// before that, the remaining connections are cut off, and cut is their number. The server
// must serve on the listeners, or be about to: its Serve returns when they are closed, with
// an error for Served.
func (d *Drainer) Drain(ctx context.Context, linger time.Duration) (cut int) {
	start := time.Now()
	d.draining.Store(true)
	old := d.open()
	look := time.NewTicker(tick)
	defer look.Stop()
	accepting := true
	for {
		d.closeSilent(start, linger)
		if accepting && (gone(old) || time.Since(start) >= linger+closeGrace) {
			accepting = false
			d.closeListeners()
		}
		if !accepting && d.ended() {
			return 0
		}
		select {
		case <-ctx.Done():
			return d.cut()
		case <-look.C:
		}
	}
}

// cut closes everything at once.
func (d *Drainer) cut() int {
	d.closeListeners()
	left := d.open()
	for _, c := range left {
		_ = c.Conn.Close()
	}
	_ = d.server.Close()
	return len(left)
}

// ended reports whether no connection is left, and none can come.
func (d *Drainer) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		if !l.ended.Load() {
			return false
		}
	}
	return len(d.conns) == 0
}

// open returns the connections that are not closed.
func (d *Drainer) open() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.conns))
}

// gone reports whether no request can come on any of the connections.
func gone(list []*conn) bool {
	return !slices.ContainsFunc(list, func(c *conn) bool { return c.state.Load() != closing })
}

// closeSilent begins to close the connections that have been silent for linger.
func (d *Drainer) closeSilent(start time.Time, linger time.Duration) {
	if time.Since(start) < linger {
		return
	}
	deadline := time.Now().Add(-linger).UnixNano()
	for _, c := range d.open() {
		if c.since.Load() <= deadline {
			c.closeIfSilent()
		}
	}
}

func (d *Drainer) closeListeners() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		_ = l.Close()
	}
}

func (d *Drainer) forget(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// Served turns the error of Serve into the real failure: nil, once Drain has begun.
func (d *Drainer) Served(err error) error {
	if d.draining.Load() && (errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed)) {
		return nil
	}
	return err
}

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
