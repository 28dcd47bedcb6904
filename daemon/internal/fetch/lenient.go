package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// lenientConn is a connection to a server of HTTP/1 whose answers are read as browsers read them. net/http
// refuses an answer for one odd field; lenientConn puts such fields right where that cannot change
// which answer it is or where it ends: what it leaves, net/http judges. It does so only between
// begin and the end of the header; everything else passes as it is.
type lenientConn struct {
	net.Conn
	headerLimit int64       // bytes of a header: what is longer passes as it is, and net/http refuses it
	asked       atomic.Bool // a request is about to be sent: what is read next is an answer

	// The fields below belong to Read, which is called by one goroutine at a time.
	line    int    // of the header, from 1; 0: not in a header
	chunks  bool   // the answer may be in chunks: HTTP/1.0 has none
	interim bool   // the header is of an answer with a status 1xx: another one follows
	dropped bool   // the line before was dropped, and so are those that continue it
	held    int64  // bytes of the header
	part    []byte // of a line that has not come to its end
	ready   []byte // to be returned
	err     error  // to be returned after ready
	chunked bool
	tail    []byte // the last bytes of a body in chunks
}

// begin says that a request is about to be sent.
func (c *lenientConn) begin() { c.asked.Store(true) }

// lenient makes a dialer for connections whose answers are read leniently.
func (f *Fetcher) lenient(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if over, is := conn.(*tls.Conn); is && over.ConnectionState().NegotiatedProtocol == "h2" {
			return conn, nil
		}
		return &lenientConn{Conn: conn, headerLimit: f.o.MaxHeaderBytes}, nil
	}
}

func (c *lenientConn) Read(p []byte) (int, error) {
	for {
		if n := copy(p, c.ready); n > 0 || len(p) == 0 {
			c.ready = c.ready[n:]
			return n, nil
		}
		if c.err != nil {
			return 0, c.err
		}
		n, err := c.Conn.Read(p)
		if c.asked.Swap(false) {
			c.line, c.held, c.part, c.chunked, c.tail = 1, 0, nil, false, c.tail[:0]
		}
		rest := p[:n]
		if c.line == 0 && err == nil {
			c.note(rest)
			return n, nil
		}
		c.ready = c.ready[:0]
		for c.line > 0 && len(rest) > 0 {
			rest = c.header(rest)
		}
		c.note(rest)
		c.ready = append(c.ready, rest...)
		if c.err = err; err != nil {
			c.ready = append(append(c.ready, c.part...), c.lastLine(err)...)
			c.part = nil
		}
	}
}

// header takes a line of a header, or a part of it, and returns what follows.
func (c *lenientConn) header(text []byte) (rest []byte) {
	end := bytes.IndexByte(text, '\n') + 1
	if end == 0 {
		end = len(text)
	}
	c.part = append(c.part, text[:end]...)
	if c.held += int64(end); c.held > c.headerLimit {
		c.ready, c.part, c.line = append(c.ready, c.part...), nil, 0
		return text[end:]
	}
	if c.part[len(c.part)-1] == '\n' {
		c.ready = append(c.ready, c.mend(c.part)...)
		c.part = c.part[:0]
	}
	return text[end:]
}

// mend returns a line of a header as net/http understands it, nil to drop it.
func (c *lenientConn) mend(line []byte) []byte {
	text := bytes.TrimRight(line, "\r\n")
	c.line++
	switch {
	case c.line == 2: // the status line
		version, status, _ := bytes.Cut(text, []byte(" "))
		c.chunks = string(version) == "HTTP/1.1"
		status = bytes.TrimLeft(status, " ")
		c.interim = len(status) >= 3 && status[0] == '1' && string(status[:3]) != "101"
		c.dropped = true // a line that continues the status line
		return line
	case len(text) == 0:
		if c.line = 0; c.interim {
			c.line = 1
		}
		return line
	case text[0] == ' ' || text[0] == '\t':
		if c.dropped {
			return nil
		}
		return append(printable(text), "\r\n"...)
	}
	name, value, colon := bytes.Cut(text, []byte(":"))
	name = bytes.TrimRight(name, " \t")
	if c.dropped = !colon || !httpguts.ValidHeaderFieldName(string(name)); c.dropped {
		return nil
	}
	value = printable(bytes.Trim(value, " \t"))
	switch strings.ToLower(string(name)) {
	case "content-length":
		value = one(value)
		c.dropped = len(value) == 0
	case "transfer-encoding":
		value = transferCodings(value)
		c.dropped = len(value) == 0
		c.chunked = c.chunks && string(value) == "chunked"
	}
	if c.dropped {
		return nil
	}
	return bytes.Join([][]byte{name, []byte(": "), value, []byte("\r\n")}, nil)
}

// printable replaces control characters by blanks (RFC 9110, 5.5), but not NUL, which browsers refuse, too.
func printable(value []byte) []byte {
	for i, b := range value {
		if b > 0 && b < ' ' && b != '\t' || b == 0x7f {
			value[i] = ' '
		}
	}
	return value
}

// one is a number that is repeated in a list, which RFC 9110 (8.6) lets recipients read as one.
func one(value []byte) []byte {
	first, rest, more := bytes.Cut(value, []byte(","))
	if !more {
		return value
	}
	first = bytes.TrimSpace(first)
	for part := range bytes.SplitSeq(rest, []byte(",")) {
		if !bytes.Equal(bytes.TrimSpace(part), first) {
			return value
		}
	}
	return first
}

// transferCodings leaves out identity, which earlier versions of HTTP had.
func transferCodings(value []byte) []byte {
	var codings []string
	for part := range strings.SplitSeq(strings.ToLower(string(value)), ",") {
		if part = strings.Trim(part, " \t"); part != "" && part != "identity" {
			codings = append(codings, part)
		}
	}
	return []byte(strings.Join(codings, ", "))
}

// lastBytes is how much of the end of a body is remembered: the line of a last chunk is short.
const lastBytes = 64

// note remembers how the body ends so far.
func (c *lenientConn) note(text []byte) {
	if c.chunked {
		c.tail = append(c.tail, text[max(0, len(text)-lastBytes):]...)
		c.tail = append(c.tail[:0], c.tail[max(0, len(c.tail)-lastBytes):]...)
	}
}

// lastLine is the empty line after the last chunk, or its trailer, where the server has left it out
// and closed the connection. If it only looked like the last chunk, net/http finds that the body is
// incomplete.
func (c *lenientConn) lastLine(err error) string {
	text, whole := bytes.CutSuffix(c.tail, []byte("\n"))
	if err != io.EOF || !c.chunked || !whole {
		return ""
	}
	text = bytes.TrimSuffix(text, []byte("\r"))
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	size, _, _ := bytes.Cut(line, []byte(";"))
	if len(line) == 0 || len(bytes.Trim(size, "0 \t")) > 0 && !bytes.Contains(line, []byte(":")) {
		return ""
	}
	c.chunked = false
	return "\r\n"
}
