// Package drain ends an http.Server without losing a request.
//
// http.Server.Shutdown closes connections that are idle at that moment, so that a client
// which is just sending its next request on one gets a reset. Here every client is told
// first: while draining, each answer closes its connection ("Connection: close", in
// HTTP/2 GOAWAY), connections are still accepted, and only one that has been silent for
// a while is closed, by its sending half first. A request that crosses that close is not
// carried out, so that it can be sent again without harm; its client sees the end of the
// connection and no reset.
//
// It starts no server and decides nothing about listeners but when to close them.
package drain

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is how often Drain looks at the connections.
	tick = 5 * time.Millisecond
	// closeGrace is how long a client may take to close its half of a connection whose
	// other half is closed. It covers a round trip over a long way.
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

// New takes server over: it wraps its Handler and uses its ConnState and ConnContext,
// which must be free. It is called before the server serves.
func New(server *http.Server) *Drainer {
	d := &Drainer{server: server, next: server.Handler, conns: map[*conn]struct{}{}}
	server.Handler = http.HandlerFunc(d.serve)
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if c := tracked(c); c != nil {
			c.changed(state)
		}
	}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, tracked(c))
	}
	return d
}

type connKey struct{}

// tracked is the connection from Listener under c, which TLS may have wrapped.
func tracked(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// Listener makes l and its connections known to d. The server is to serve on what it
// returns; encrypted says that TLS will be put on it. It is called before anybody may call
// Drain, which neither closes nor waits for a listener that it does not know.
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
	ended     atomic.Bool // Accept gives no connection any more
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if errors.Is(err, net.ErrClosed) {
			l.ended.Store(true)
		}
		return nil, err
	}
	own := &conn{Conn: c, d: l.d, encrypted: l.encrypted}
	own.since.Store(time.Now().UnixNano())
	l.d.mu.Lock()
	l.d.conns[own] = struct{}{}
	l.d.mu.Unlock()
	return own, nil
}

// serve is the handler around that of the server.
func (d *Drainer) serve(w http.ResponseWriter, r *http.Request) {
	if c, _ := r.Context().Value(connKey{}).(*conn); c != nil && !c.begin() {
		panic(http.ErrAbortHandler) // the answer could not be sent any more
	}
	if d.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	d.next.ServeHTTP(w, r)
}

// Drain answers what comes until every connection that is open now has ended, at most
// for linger and what it takes to close them; then it closes the listeners, waits for
// the requests that are under way, and returns. A connection that has been silent for
// linger is closed. When ctx ends before that, what is left is cut off, and cut says
// how many connections those were. The server serves on the listeners, or is about to: its
// Serve returns when they are closed, with an error for Served.
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

// ended tells whether no connection is left, and none can come.
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

// open lists the connections that are not closed.
func (d *Drainer) open() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*conn, 0, len(d.conns))
	for c := range d.conns {
		list = append(list, c)
	}
	return list
}

// gone tells whether no request can come on any of the connections.
func gone(list []*conn) bool {
	for _, c := range list {
		if c.state.Load() != closing {
			return false
		}
	}
	return true
}

// closeSilent begins to close the connections on which nothing has come for linger.
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

// Served turns what Serve returned into what went wrong: nothing, once Drain has begun.
func (d *Drainer) Served(err error) error {
	if d.draining.Load() && (errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed)) {
		return nil
	}
	return err
}
