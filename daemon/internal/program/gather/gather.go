// Package gather sends the head of an answer over HTTP/1.1 and the body behind it with one
// call of the system. net/http has a buffer of 4 KiB: it writes the head and what of the body
// fits behind it, and then the rest. The client would be woken by the first of the two, and
// read twice.
//
// It buffers no more than that first write, and only where a handler says that another one
// follows. Connections with TLS are left as they are.
package gather

import (
	"context"
	"errors"
	"io"
	"net"
)

// headBytes is the most that is held: the buffer of net/http.
const headBytes = 4 << 10

// Listener makes Of find the answers on l's connections, on which no TLS will be put.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn is a connection whose answers are written by one goroutine at a time.
type conn struct {
	net.Conn
	answer Answer
}

// Answer is what is written to a connection. The methods of a nil one do nothing.
type Answer struct {
	holding bool
	held    []byte
	parts   [2][]byte   // of a write
	buffers net.Buffers // parts, while they are written
	to      net.Conn
}

type key struct{}

// Context is for [http.Server.ConnContext]: Of finds the answers on c in what it returns. c is
// a connection of Listener, or has one under NetConn.
func Context(ctx context.Context, c net.Conn) context.Context {
	for {
		switch over := c.(type) {
		case *conn:
			return context.WithValue(ctx, key{}, &over.answer)
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return ctx
		}
	}
}

// Of is the answer on the connection of a request with such a context; nil: it cannot be
// gathered.
func Of(ctx context.Context) *Answer {
	a, _ := ctx.Value(key{}).(*Answer)
	return a
}

// Hold keeps back the next write, until one follows or Release is called.
func (a *Answer) Hold() {
	if a != nil {
		a.holding = true
	}
}

// Release writes what is held, and holds nothing any more.
func (a *Answer) Release() error {
	if a == nil {
		return nil
	}
	a.holding = false
	if len(a.held) == 0 {
		return nil
	}
	held := a.held
	a.held = a.held[:0]
	_, err := a.to.Write(held)
	return err
}

// Write writes p, behind what is held.
func (c *conn) Write(p []byte) (int, error) {
	a := &c.answer
	switch {
	case len(a.held) > 0:
		return a.writeBehind(p)
	case a.holding && len(p) <= headBytes:
		a.holding, a.to = false, c.Conn
		a.held = append(a.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (a *Answer) writeBehind(p []byte) (int, error) {
	before := len(a.held)
	a.parts = [2][]byte{a.held, p}
	a.buffers = a.parts[:]
	n, err := a.buffers.WriteTo(a.to) // one call where a.to is of package net
	a.parts, a.held = [2][]byte{}, a.held[:0]
	return max(0, int(n)-before), err
}

// CloseWrite ends the sending half.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// ReadFrom lets a file go the short way through the system.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.answer.Release(); err != nil {
		return 0, err
	}
	return io.Copy(c.Conn, r)
}
