// Package lean is an HTTP/1.1 client of one connection, for load generators: its own cost must be
// small compared with the server's, because both often share a machine. The caller writes the
// requests and sends them one at a time.
//
// It follows no redirects, dials nothing and repeats nothing. It is not safe for concurrent use.
package lean

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// ErrNotHTTP is wrapped in the error for an answer that is neither HTTP/1.1 nor HTTP/1.0.
var ErrNotHTTP = errors.New("not an answer of HTTP/1.1")

const (
	// lateAnswer is how long to wait for the answer to a request that the server did not read to
	// its end: it may have answered before it closed the connection.
	lateAnswer = time.Second
	maxHeader  = 64 << 10
	maxBody    = 1 << 30
)

// Conn is a connection.
type Conn struct {
	net.Conn
	in     *bufio.Reader
	answer Answer
}

// New makes a Conn from an open connection.
func New(conn net.Conn) *Conn { return &Conn{Conn: conn, in: bufio.NewReaderSize(conn, maxHeader)} }

// Answer is what the server said. Its contents are valid until the next exchange.
type Answer struct {
	Status  int
	Header  []byte // its lines
	Body    []byte
	Trailer []byte // its lines, after a chunked body
	Close   bool   // the server accepts no further request on this connection
	Size    int64  // bytes that were read for it, without the status line and the chunk framing
}

// Get returns the value of a field in the header, or else in the trailer; nil: there is none.
func (a *Answer) Get(name string) []byte {
	if value := field(a.Header, name); value != nil {
		return value
	}
	return field(a.Trailer, name)
}

func field(lines []byte, name string) []byte {
	for line := range bytes.Lines(lines) {
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:])
		}
	}
	return nil
}

// Exchange sends a request, header and body, and reads the answer. After an error, or after an
// answer with Close set, the connection must not be used any more.
func (c *Conn) Exchange(request []byte) (*Answer, error) {
	_, writeErr := c.Write(request)
	if writeErr != nil {
		if err := c.SetReadDeadline(time.Now().Add(lateAnswer)); err != nil {
			return nil, writeErr
		}
	}
	err := c.read()
	switch {
	case err != nil && writeErr != nil:
		return nil, writeErr
	case err != nil:
		return nil, err
	}
	c.answer.Close = c.answer.Close || writeErr != nil
	return &c.answer, nil
}

// read reads an answer, and skips the interim ones (1xx) before it.
func (c *Conn) read() error {
	a := &c.answer
	*a = Answer{Header: a.Header[:0], Body: a.Body[:0], Trailer: a.Trailer[:0]}
	for a.Status < 200 {
		if err := c.readHeader(); err != nil {
			return err
		}
	}
	a.Size = int64(len(a.Header))
	err := c.readBody()
	a.Size += int64(len(a.Body) + len(a.Trailer))
	return err
}

func (c *Conn) readHeader() error {
	a := &c.answer
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return c.cut(err, len(status))
	}
	// HTTP/1.1 200 OK
	if len(status) < 14 || !bytes.HasPrefix(status, []byte("HTTP/1.")) || status[8] != ' ' {
		return fmt.Errorf("%w: %.60q", ErrNotHTTP, status)
	}
	if a.Status, err = strconv.Atoi(string(status[9:12])); err != nil || a.Status < 100 {
		return fmt.Errorf("%w: %.60q", ErrNotHTTP, status)
	}
	a.Close = status[7] == '0'
	a.Header, err = c.readLines(a.Header[:0])
	return err
}

// readLines appends the lines up to an empty one.
func (c *Conn) readLines(to []byte) ([]byte, error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return to, c.cut(err, 1)
		}
		if len(line) <= 2 {
			return to, nil
		}
		if to = append(to, line...); len(to) > maxHeader {
			return to, fmt.Errorf("%w: a header of more than %d bytes", ErrNotHTTP, maxHeader)
		}
	}
}

// cut returns the error for a connection that ended after n bytes of something.
func (c *Conn) cut(err error, n int) error {
	if errors.Is(err, io.EOF) && n > 0 {
		return io.ErrUnexpectedEOF
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrNotHTTP, maxHeader)
	}
	return err
}

func (c *Conn) readBody() (err error) {
	a := &c.answer
	if bytes.EqualFold(field(a.Header, "Connection"), []byte("close")) {
		a.Close = true
	}
	length := field(a.Header, "Content-Length")
	switch {
	case a.Status == 204 || a.Status == 304:
		return nil
	case bytes.EqualFold(field(a.Header, "Transfer-Encoding"), []byte("chunked")):
		if err = c.fill(httputil.NewChunkedReader(c.in)); err != nil {
			return err
		}
		a.Trailer, err = c.readLines(a.Trailer)
		return err
	case length != nil:
		n, err := strconv.Atoi(string(length))
		if err != nil || n < 0 || n > maxBody {
			return fmt.Errorf("%w: Content-Length %q", ErrNotHTTP, length)
		}
		if cap(a.Body) < n {
			a.Body = make([]byte, n+n/4)
		}
		a.Body = a.Body[:n]
		if _, err = io.ReadFull(c.in, a.Body); errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	a.Close = true
	return c.fill(c.in)
}

// fill reads the body up to its end.
func (c *Conn) fill(from io.Reader) error {
	a := &c.answer
	for {
		if len(a.Body) == cap(a.Body) {
			a.Body = append(a.Body, make([]byte, 16<<10)...)[:len(a.Body)]
		}
		n, err := from.Read(a.Body[len(a.Body):cap(a.Body)])
		a.Body = a.Body[:len(a.Body)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
