package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// minBytesPerSecond is the average speed that a JSON body must keep, and an answer.
	minBytesPerSecond = 1 << 10
	firstRead         = 16 << 10
	// maxAhead bounds the memory taken for what a Content-Length only promises.
	maxAhead = 1 << 20
)

// body reads a request's body, giving up on a client that sends nothing. Its errors
// are faults. net/http takes a read deadline away at the body's end, and a write deadline
// at the request's.
type body struct {
	c       *call
	timeout time.Duration
	armed   time.Time // when the deadline was set last
	first   time.Time // when reading began
	read    int64     // bytes on the wire
	paced   bool      // minBytesPerSecond is asked
	err     error

	unzip *gzip.Reader
	done  bool // the body's end was seen, after decompression
}

func (b *body) begin(c *call) {
	*b = body{c: c, timeout: c.s.limits.BodyTimeout}
	b.arm(c.start) // net/http reads the rest of a body that no action reads
}

// arm does nothing where there is no body: there net/http reads already, to see the
// client leave, and would take the deadline for that.
func (b *body) arm(now time.Time) {
	if b.c.r.Body == http.NoBody {
		return
	}
	b.armed = now
	_ = b.c.rc.SetReadDeadline(now.Add(b.timeout)) // see call.writeBy
}

// open looks at the Content-Encoding.
func (b *body) open(paced bool) error {
	b.paced, b.first = paced, time.Now()
	switch coding := b.c.r.Header.Get("Content-Encoding"); strings.ToLower(coding) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		return b.openGzip()
	default:
		return &fault{
			code:   codeUnsupportedCoding,
			detail: "Content-Encoding " + strconv.Quote(coding) + ": want gzip or none",
			known:  []string{"gzip", "identity"},
			header: [2]string{"Accept-Encoding", "gzip"},
		}
	}
}

func (b *body) openGzip() error {
	pool := &b.c.s.unzippers
	z, ok := pool.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	if err := z.Reset(wire{b}); err != nil {
		pool.Put(z)
		return b.gzipError(err)
	}
	b.unzip = z
	return nil
}

// end returns the decompressor; the body must not be read after.
func (b *body) end() {
	if b.unzip != nil {
		b.c.s.unzippers.Put(b.unzip)
	}
	read := b.read
	*b = body{read: read}
}

// Read reads the body, decompressed.
func (b *body) Read(p []byte) (int, error) {
	if b.unzip == nil {
		n, err := wire{b}.Read(p)
		b.done = err == io.EOF
		return n, err
	}
	n, err := b.unzip.Read(p)
	switch {
	case err == io.EOF:
		b.done = true
	case err != nil:
		err = b.gzipError(err)
	}
	return n, err
}

func (b *body) gzipError(err error) error {
	if b.err != nil {
		return b.err // the connection's, not the data's
	}
	return &fault{code: codeMalformedGzip, detail: err.Error()}
}

// wire reads a body as it was sent.
type wire struct{ *body }

func (b wire) Read(p []byte) (int, error) {
	now := time.Now()
	if now.Sub(b.armed) > b.timeout/8 {
		b.arm(now)
	}
	if took := now.Sub(b.first); b.paced && took > b.timeout && b.read < int64(took.Seconds()*minBytesPerSecond) {
		b.err = &fault{code: codeRequestTimeout, detail: "want " + strconv.Itoa(minBytesPerSecond) + " bytes a second at least"}
		return 0, b.err
	}
	n, err := b.c.r.Body.Read(p)
	b.read += int64(n)
	if err == nil {
		return n, nil
	}
	var timeout net.Error
	switch {
	case err == io.EOF:
		return n, err
	case errors.As(err, &timeout) && timeout.Timeout():
		b.err = &fault{code: codeRequestTimeout, detail: "nothing came for " + b.timeout.String(), cause: err}
	default:
		b.err = &fault{code: codeIncompleteBody, cause: err}
	}
	return n, b.err
}

// readBody reads a whole body of at most limit bytes into the call's buffer. What it
// takes of the budget grows with what has come, not with what is promised.
func (c *call) readBody(limit int64) ([]byte, error) {
	if c.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if err := c.body.open(true); err != nil {
		return nil, err
	}
	want := int64(firstRead)
	if c.r.ContentLength > 0 && c.body.unzip == nil {
		want = min(c.r.ContentLength+1, maxAhead) // 1: room to see the end in the same read
	}
	c.buf = c.buf[:0]
	if !c.hold(int64(cap(c.buf))) {
		return nil, overloaded()
	}
	if err := c.growBody(want); err != nil {
		return nil, err
	}
	for {
		if len(c.buf) == cap(c.buf) {
			// One byte past the limit is enough to know that the body is too large.
			if err := c.growBody(min(2*int64(cap(c.buf)), limit+1)); err != nil {
				return nil, err
			}
		}
		n, err := c.body.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if int64(len(c.buf)) > limit {
			return nil, tooLarge(limit)
		}
		if err == io.EOF {
			return c.buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (c *call) growBody(size int64) error {
	more := size - int64(cap(c.buf))
	if more <= 0 {
		return nil
	}
	if !c.hold(more) {
		return overloaded()
	}
	grown := make([]byte, len(c.buf), size)
	copy(grown, c.buf)
	c.buf = grown
	return nil
}

// hold takes n bytes of the budget for bodies, until the call ends.
func (c *call) hold(n int64) bool {
	if !c.s.held.take(n) {
		return false
	}
	c.held += n
	return true
}

func overloaded() error { return &fault{code: codeOverloaded} }

func tooLarge(limit int64) error {
	return &fault{code: codeBodyTooLarge, detail: "want at most " + strconv.FormatInt(limit, 10) + " bytes"}
}
