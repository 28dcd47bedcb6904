// Package tlshint tells callers that speak plain HTTP to a TLS port about their mistake.
//
// net/http does that too, but closes the connection at once. The system then answers the data
// that the caller is still sending with a reset, which can overtake the answer, and the caller
// reads "connection reset" instead of the reason. Here the sending half is closed first, and
// further data is read for a moment.
package tlshint

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// linger is how long the caller may take to read the answer and to close.
	linger = time.Second
	// maxLingering is how many connections wait like this at a time; others are closed at once.
	maxLingering = 64

	text = "This port speaks TLS, and the request came without: call it by https:// (HTTPS).\n"
)

// errPlain ends the handshake of a caller that got the hint.
var errPlain = errors.New("a caller without TLS on a port of TLS")

var answer = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Connection: close\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text)

// Listener examines the first byte of each connection of l, on which TLS will be put. It
// reads nothing before its user reads.
func Listener(l net.Listener) net.Listener { return &listener{Listener: l} }

type listener struct {
	net.Listener
	lingering atomic.Int32
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, l: l}, nil
}

type conn struct {
	net.Conn
	l     *listener
	begun bool // something was read
}

// Read is called by only one goroutine at a time, as package tls guarantees.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
	if isMethod(p[0]) {
		c.tell()
		return 0, errPlain
	}
	return n, err
}

// isMethod distinguishes the first letter of an HTTP method from the type of a TLS record,
// which is below 32.
func isMethod(b byte) bool { return 'A' <= b && b <= 'Z' }

func (c *conn) tell() {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(linger)) // the first bytes of a connection need no waiting
	if _, err := c.Conn.Write(answer); err != nil || c.CloseWrite() != nil {
		return
	}
	if c.l.lingering.Add(1) <= maxLingering && c.Conn.SetReadDeadline(time.Now().Add(linger)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	c.l.lingering.Add(-1)
}

// CloseWrite ends the sending half.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
