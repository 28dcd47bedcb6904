// Package wrongport tells callers that speak another protocol than a port of HTTP about their
// mistake: those that speak plain HTTP to a port of TLS, and clients of Redis.
//
// net/http does the first too, but closes the connection at once. The system then answers the data
// that the caller is still sending with a reset, which can overtake the answer, and the caller
// reads "connection reset" instead of the reason. Here the sending half is closed first, and
// further data is read for a moment. To clients of Redis net/http says 400, which they take for
// a fault of the protocol.
package wrongport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// linger is how long the caller may take to read the answer and to close.
	linger = time.Second
	// maxLingering is how many connections wait like this at a time; others are closed at once.
	maxLingering = 64

	text = "This port speaks TLS, and the request came without: call it by https:// (HTTPS).\n"
)

// errTold ends a connection whose caller got the hint.
var errTold = errors.New("a caller of another protocol")

var answer = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Connection: close\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text)

// Listener examines the first byte of each connection of l, on which TLS will be put if encrypted
// says so. redis says where clients of Redis are served, "": nowhere. It reads nothing before its
// user reads.
func Listener(l net.Listener, encrypted bool, redis string) net.Listener {
	text := "-ERR this port speaks HTTP, and no port of this daemon speaks RESP\r\n"
	if redis != "" {
		text = "-ERR this port speaks HTTP; clients of Redis are served at " + redis + "\r\n"
	}
	return &listener{Listener: l, encrypted: encrypted, toRedis: []byte(text)}
}

type listener struct {
	net.Listener
	encrypted bool
	toRedis   []byte
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

// NetConn returns the connection under c.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read is called by only one goroutine at a time, as packages tls and http guarantee.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
	switch {
	case p[0] == '*', inline(p[:n]): // a command of Redis; neither HTTP nor TLS begins so
		c.tell(c.l.toRedis)
	case c.l.encrypted && isMethod(p[0]):
		c.tell(answer)
	default:
		return n, err
	}
	return 0, errTold
}

// inline reports whether the first bytes of a connection are a command of Redis that somebody has
// typed: a line of text that is no request line of HTTP, which names a path and mostly a version.
func inline(first []byte) bool {
	line, _, whole := bytes.Cut(first, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if !whole || len(line) == 0 || !isLetter(line[0]) || bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == utf8.RuneError }) {
		return false
	}
	words := bytes.Fields(line)
	return len(words) == 1 || words[1][0] != '/' && !bytes.Contains(line, []byte(" HTTP/"))
}

func isLetter(b byte) bool { return 'A' <= b&^0x20 && b&^0x20 <= 'Z' }

// isMethod distinguishes the first letter of an HTTP method from the type of a TLS record,
// which is below 32.
func isMethod(b byte) bool { return 'A' <= b && b <= 'Z' }

func (c *conn) tell(text []byte) {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(linger)) // the first bytes of a connection need no waiting
	if _, err := c.Conn.Write(text); err != nil || c.CloseWrite() != nil {
		return
	}
	if c.l.lingering.Add(1) <= maxLingering && c.Conn.SetReadDeadline(time.Now().Add(linger)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	c.l.lingering.Add(-1)
}

// ReadFrom lets the system send a file without copying it to this process.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite ends the sending half.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
