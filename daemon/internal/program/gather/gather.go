// Package gather sends the head and body of an HTTP/1.1 answer with one system call. net/http
// has a buffer of 4 KiB: it writes the head with as much of the body as fits, and then the rest.
// The first of the two writes would wake the client, which would then read twice.
//
// It buffers no more than that first write, and only if a handler says that another one
// follows. Connections with TLS are left as they are.
package gather

import (
	"context"
	"io"
	"net"

	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

// headBytes is the most that is held: the size of net/http's buffer.
const headBytes = 4 << 10

// Listener lets Of find the answers on l's connections, on which no TLS will be put.
func Listener(l net.Listener) net.Listener {
	return wrap.Listener(l, func(c net.Conn) net.Conn { return &conn{Conn: wrap.Conn{Conn: c}} })
}

// conn is a connection whose answers are written by one goroutine at a time.
type conn struct {
	wrap.Conn
	answer Answer
}

// Answer controls the writes to a connection. The methods of a nil Answer do nothing.
type Answer struct {
	holding bool
	held    []byte
	parts   [2][]byte   // of a write
	buffers net.Buffers // parts, while they are written
	to      net.Conn
}

// Of returns the answer on the connection of a request, whose context must be of [wrap.Context], or nil
// if it cannot be gathered.
func Of(ctx context.Context) *Answer {
	if c := wrap.Of[*conn](ctx); c != nil {
		return &c.answer
	}
	return nil
}

// Hold keeps back the next write until another follows or Release is called.
func (a *Answer) Hold() {
	if a != nil {
		a.holding = true
	}
}

// Release writes the held bytes, and ends the hold.
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

// Write writes p, after any held bytes.
func (c *conn) Write(p []byte) (int, error) {
	a := &c.answer
	switch {
	case len(a.held) > 0:
		return a.writeBehind(p)
	case a.holding && len(p) <= headBytes:
		a.holding, a.to = false, c.NetConn()
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

// ReadFrom sends what is held before what it copies.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.answer.Release(); err != nil {
		return 0, err
	}
	return c.Conn.ReadFrom(r)
}
