// Package wrongport tells callers that speak another protocol than a port of HTTP about their
// mistake: those that speak plain HTTP to a port of TLS, TLS to a port without, and clients of
// Redis, by TLS or not. A port for these clients tells callers of HTTP by its Teller.
//
// net/http does the first too, but closes the connection at once. The system then answers the data
// that the caller is still sending with a reset, which can overtake the answer, and the caller
// reads "connection reset" instead of the reason. Here the sending half is closed first, and
// further data is read for a moment. To clients of Redis net/http says 400, which they take for
// a fault of the protocol.
package wrongport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

const (
	// linger is how long the caller may take to read the answer and to close.
	linger = time.Second
	// maxLingering is how many connections wait like this at a time; others are closed at once.
	maxLingering = 64

	// firstBytes is how much of what a caller sends first is looked at.
	firstBytes = 512

	handshake = 0x16 // the first byte of TLS

	text   = "This port speaks TLS, and the request came without: call it by https:// (HTTPS).\n"
	noTLS  = "This port speaks HTTP without TLS, and the caller began with TLS: call it by http://.\n"
	speaks = "-ERR this port speaks HTTP"
)

// errTold ends a connection whose caller got the hint.
var errTold = errors.New("a caller of another protocol")

// BadRequest is an answer of HTTP/1.1 that says what is wrong, after which the connection ends.
func BadRequest(text string) []byte {
	return []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Connection: close\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text)
}

// Listener examines the first bytes of each connection of l, on which TLS will be put if encrypted
// says so, by Encrypted. redis says where clients of Redis are served, "": nowhere. It reads
// nothing before its user reads.
func Listener(l net.Listener, encrypted bool, redis string) net.Listener {
	return listen(l, &port{encrypted: encrypted, toRedis: toRedis(redis)})
}

// Encrypted puts TLS on the connections of l, and examines what is in it. A server of package http
// that serves them must have the Protocols of Inside: it does not see the TLS, whose handshake is
// done as it reads, so HTTP/2 is told by its preface.
func Encrypted(l net.Listener, config *tls.Config, redis string) net.Listener {
	return listen(l, &port{inside: config, toRedis: toRedis(redis)})
}

// Inside are the protocols of a server on a listener of Encrypted.
func Inside() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

func toRedis(at string) []byte {
	if at == "" {
		return []byte(speaks + ", and no port of this daemon speaks RESP\r\n")
	}
	return []byte(speaks + "; clients of Redis are served at " + at + "\r\n")
}

// port is what the connections of a listener have in common.
type port struct {
	encrypted bool        // TLS will be put on it
	inside    *tls.Config // TLS is put on it; nil: not here
	toRedis   []byte
	teller    Teller
}

func listen(l net.Listener, p *port) net.Listener {
	return wrap.Listener(l, func(c net.Conn) net.Conn {
		if p.inside != nil {
			c = tls.Server(c, p.inside)
		}
		return &conn{Conn: wrap.Conn{Conn: c}, port: p}
	})
}

type conn struct {
	wrap.Conn // with TLS, if it is put on here
	port      *port
	begun     bool   // something was read
	told      bool   // that this is the wrong port
	first     []byte // of what was read, and not yet given to the reader
}

// Read is called by only one goroutine at a time, as packages tls and http guarantee.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.told:
		return 0, errTold
	case len(c.first) > 0:
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	case c.begun || len(p) == 0:
		return c.Conn.Read(p)
	}
	first := p
	if len(p) < firstBytes { // http looks for the preface of HTTP/2 alone
		first = make([]byte, firstBytes)
	}
	n, err := c.Conn.Read(first)
	if n == 0 {
		return 0, err
	}
	c.begun = true
	if text := c.wrong(first[:n]); text != nil {
		c.port.teller.Tell(c, text)
		c.told = true
		return 0, errTold
	}
	if len(p) < firstBytes {
		given := copy(p, first[:n])
		if c.first, n = first[given:n], given; len(c.first) > 0 {
			return n, nil // an error comes again
		}
	}
	return n, err
}

// wrong returns what the caller is told whose first bytes these are; nil: they are of the protocol.
func (c *conn) wrong(first []byte) []byte {
	switch {
	case first[0] == '*', inline(first): // a command of Redis; neither HTTP nor TLS begins so
		return c.port.toRedis
	case c.port.encrypted && isMethod(first[0]):
		return BadRequest(text)
	case !c.port.encrypted && first[0] == handshake:
		return BadRequest(noTLS)
	}
	return nil
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
	return len(words) == 1 || words[1][0] != '/' && !IsRequest(line)
}

// IsRequest reports whether the first line of a text is a request line of HTTP.
func IsRequest(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	return bytes.Contains(line, []byte(" HTTP/"))
}

func isLetter(b byte) bool { return 'A' <= b&^0x20 && b&^0x20 <= 'Z' }

// isMethod distinguishes the first letter of an HTTP method from the type of a TLS record,
// which is below 32.
func isMethod(b byte) bool { return 'A' <= b && b <= 'Z' }

// Teller tells callers that they are wrong, so that they can read it. It is safe for concurrent use.
type Teller struct{ lingering atomic.Int32 }

// Tell sends text, ends the sending half of c, and reads for a moment what the caller still sends.
// The caller closes c.
func (t *Teller) Tell(c net.Conn, text []byte) {
	_ = c.SetWriteDeadline(time.Now().Add(linger)) // the first bytes of a connection need no waiting
	half, ok := c.(interface{ CloseWrite() error })
	if _, err := c.Write(text); err != nil || !ok || half.CloseWrite() != nil {
		return
	}
	if t.lingering.Add(1) <= maxLingering && c.SetReadDeadline(time.Now().Add(linger)) == nil {
		_, _ = io.Copy(io.Discard, c)
	}
	t.lingering.Add(-1)
}
