package testserver

import (
	"net"
	"sync"
	"testing"
)

// Relay listens in front of a server. Its address stays the same while the server comes and goes.
type Relay struct {
	Addr string

	listener net.Listener
	dial     func() (net.Conn, error)
	pass     func(client, server net.Conn)
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // of both sides; nil at the end
}

// Front listens in front of the server at the address to, until t ends. Each connection is
// for pass, with one to the server; both are closed when pass returns, and at the end.
func Front(t testing.TB, to string, pass func(client, server net.Conn)) (addr string) {
	t.Helper()
	r, err := NewRelay("127.0.0.1", func() (net.Conn, error) { return net.Dial("tcp", to) }, pass)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r.Addr
}

// NewRelay is Front on a free port of host, for the server that dial connects to, until Close.
func NewRelay(host string, dial func() (net.Conn, error), pass func(client, server net.Conn)) (*Relay, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	r := &Relay{Addr: l.Addr().String(), listener: l, dial: dial, pass: pass, conns: map[net.Conn]bool{}}
	r.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			r.work.Go(func() { r.serve(client) })
		}
	})
	return r, nil
}

func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	server, err := r.dial()
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	ended := r.conns == nil
	if !ended {
		r.conns[client], r.conns[server] = true, true
	}
	r.mu.Unlock()
	if ended {
		return
	}
	r.pass(client, server)
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, server)
	r.mu.Unlock()
}

// Break closes all present connections.
func (r *Relay) Break() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breakAll()
}

func (r *Relay) breakAll() { // holds mu
	for c := range r.conns {
		_ = c.Close()
	}
}

// Close ends the relay, and waits for its connections.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.breakAll()
	r.conns = nil // in the same step: none is added in between, and left open
	r.mu.Unlock()
	r.work.Wait()
}
