// Package pipes has listeners whose connections are pipes of this process, for tests in a bubble of
// testing/synctest, whose clock does not wait for data in the kernel.
package pipes

import (
	"context"
	"net"
	"sync"
)

// Listener accepts the connections that Dial makes.
type Listener struct {
	// Pair makes both ends of a connection.
	Pair   func() (here, there net.Conn)
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Listen makes a listener of pipes of package net.
func Listen() *Listener {
	return &Listener{Pair: net.Pipe, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial is for [net/http.Transport.DialContext]: whatever the address, it connects to l.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := l.Pair()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr looks like an address of this machine.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
