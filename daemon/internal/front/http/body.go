package http

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

const (
	firstRead = 16 << 10
	// maxAhead bounds the memory that is allocated merely because of a Content-Length.
	maxAhead = 1 << 20
	// unzipHeld is what a decompressor adds to Limits.HeldBytes.
	unzipHeld = 64 << 10
	// maxGzipOverhead is how much longer than its content gzip may be; it need not be longer.
	maxGzipOverhead = 64 << 10

	// anonymousBody bounds a JSON body without an Authorization header if tokens are
	// required: it is read before the token in it can be checked.
	anonymousBody = 64 << 10
	// anonymousHeld bounds all such bodies together. They have a separate budget, so that
	// callers without a token take nothing from those with one.
	anonymousHeld = 16 << 20
	anonymousRead = 4 << 10
)

// body reads a request's body, giving up on a client that sends nothing. Its errors
// are of type [problem.Error]. net/http removes a read deadline at the end of the body, and
// a write deadline at the end of the request.
type body struct {
	c         *call
	timeout   time.Duration
	armed     time.Time // when the deadline was set last
	end       time.Time // when all of it must have come; zero: no limit
	read      int64     // bytes on the wire
	readLimit int64     // the largest read allowed; 0: any number
	paced     bool      // a pace is required
	pace      pace
	err       error

	unzip    *gzip.Reader
	unzipped int64
	done     bool // the body's end was seen, after decompression
}

func (b *body) begin(c *call) {
	*b = body{c: c, timeout: c.s.limits.BodyTimeout}
	b.arm(c.start) // if no action reads the body, net/http does
}

// arm does nothing if there is no body: net/http is then already reading, to notice that
// the client leaves, and would mistake the deadline for that.
func (b *body) arm(now time.Time) {
	if b.c.r.Body == http.NoBody {
		return
	}
	b.armed = now
	deadline := now.Add(b.timeout)
	if !b.end.IsZero() && b.end.Before(deadline) {
		deadline = b.end
	}
	_ = b.c.rc.SetReadDeadline(deadline) // see call.writeBy
}

// open checks the Content-Encoding. limit bounds the unpacked size of a paced body; a stream
// is not paced, and has no bound.
func (b *body) open(paced bool, limit int64) error {
	now := time.Now()
	if b.paced = paced; paced {
		b.pace.begin(b.timeout, now)
		b.readLimit = limit + 1 + maxGzipOverhead
	}
	if !b.c.admitted {
		b.end = now.Add(b.timeout)
		b.arm(now)
	}
	switch coding := b.c.r.Header.Get("Content-Encoding"); strings.ToLower(coding) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		return b.openGzip()
	default:
		return &problem.Error{
			Code:   problem.UnsupportedCoding,
			Detail: "Content-Encoding " + strconv.Quote(coding) + ": want gzip or none",
			Known:  []string{"gzip", "identity"},
			Header: [2]string{"Accept-Encoding", "gzip"},
		}
	}
}

func (b *body) openGzip() error {
	if !b.c.hold(unzipHeld) {
		return b.c.overloaded()
	}
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

// close returns the decompressor; the body must not be read afterwards.
func (b *body) close() {
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
	b.unzipped += int64(n)
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
	return &problem.Error{Code: problem.MalformedGzip, Detail: err.Error()}
}

// wire reads a body in the form in which it was sent.
type wire struct{ *body }

func (b wire) Read(p []byte) (int, error) {
	now := time.Now()
	if now.Sub(b.armed) > b.timeout/8 {
		b.arm(now)
	}
	switch {
	case b.readLimit > 0 && b.read > b.readLimit:
		b.err = b.c.tooLarge(b.readLimit)
		return 0, b.err
	case b.paced && !b.pace.keeps(now, b.useful()):
		b.err = &problem.Error{Code: problem.RequestTimeout, Detail: "want " + strconv.Itoa(minBytesPerSecond) + " bytes a second at least"}
		return 0, b.err
	case !b.end.IsZero() && now.After(b.end):
		b.err = b.tooSlow(nil)
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
		b.err = b.tooSlow(err)
	default:
		b.err = &problem.Error{Code: problem.IncompleteBody, Cause: err}
	}
	return n, b.err
}

// useful returns what the pace counts: useful bytes that have come. For gzip that is the
// smaller of packed and unpacked size, because gzip may unpack to nothing, or a few bytes of it
// to the largest allowed body.
func (b *body) useful() int64 {
	if b.unzip == nil {
		return b.read
	}
	return min(b.read, b.unzipped)
}

func (b *body) tooSlow(cause error) error {
	f := &problem.Error{Code: problem.RequestTimeout, Detail: "nothing came for " + b.timeout.String(), Cause: cause}
	if !b.end.IsZero() {
		f.Detail = "without an Authorization header a body must be whole after " + b.timeout.String()
	}
	return f
}

// readBody reads a whole body of at most limit bytes into the call's buffer. What it
// takes of the budget grows with the received bytes, not with the Content-Length.
func (c *call) readBody(limit int64) ([]byte, error) {
	want := int64(firstRead)
	if !c.admitted {
		limit, want = min(limit, anonymousBody), anonymousRead
	}
	if c.r.ContentLength > limit {
		return nil, c.tooLarge(limit)
	}
	if err := c.body.open(true, limit); err != nil {
		return nil, err
	}
	if c.r.ContentLength > 0 && c.body.unzip == nil && c.admitted {
		want = min(c.r.ContentLength+1, maxAhead) // 1: room to see the end in the same read
	}
	c.buf = c.buf[:0]
	if !c.hold(int64(cap(c.buf))) {
		return nil, c.overloaded()
	}
	if err := c.growBody(want); err != nil {
		return nil, err
	}
	for {
		if len(c.buf) == cap(c.buf) {
			// One byte beyond the limit is enough to know that the body is too large.
			if err := c.growBody(min(2*int64(cap(c.buf)), limit+1)); err != nil {
				return nil, err
			}
		}
		n, err := c.body.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if int64(len(c.buf)) > limit {
			return nil, c.tooLarge(limit)
		}
		if err == io.EOF {
			return c.buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// growBody copies the buffer to a larger one; during the copy, both are held.
func (c *call) growBody(size int64) error {
	old := int64(cap(c.buf))
	if size <= old {
		return nil
	}
	if !c.hold(size) {
		return c.overloaded()
	}
	grown := make([]byte, len(c.buf), size)
	copy(grown, c.buf)
	c.buf = grown
	c.release(old)
	return nil
}

// hold takes n bytes of the budget for bodies, until the call ends or releases them.
func (c *call) hold(n int64) bool {
	if !c.budget.Take(c.holder, n, c.held) {
		return false
	}
	c.held += n
	return true
}

func (c *call) release(n int64) {
	c.budget.Give(c.holder, n)
	c.held -= n
}

func (c *call) overloaded() error {
	if c.admitted {
		return &problem.Error{Code: problem.Overloaded, Detail: "bodies have limits.held_bytes of memory, those of one token or address three quarters of it at most"}
	}
	return &problem.Error{Code: problem.Overloaded, Detail: "too many bodies come without an Authorization header: send the token in one"}
}

// tooLarge returns the error for a body beyond a limit. A caller without a token is not told the
// limit for callers with one.
func (c *call) tooLarge(limit int64) error {
	if !c.admitted {
		return c.s.access.Unauthorized("send the token in the Authorization header; without it a body may have " + strconv.Itoa(anonymousBody>>10) + " KiB")
	}
	return &problem.Error{Code: problem.BodyTooLarge, Detail: "want at most " + strconv.FormatInt(limit, 10) + " bytes"}
}

// media says how to read a request's body.
type media int

const (
	mediaJSON   media = iota
	mediaForm         // also JSON: the type that curl -d sends
	mediaText         // lines
	mediaNDJSON       // lines of JSON
)

// mediaOf returns the type of the body for a call that takes JSON and streams. Its error is a
// [problem.Error].
func mediaOf(r *http.Request) (media, error) {
	value := r.Header.Get("Content-Type")
	switch value { // the usual ones need no parsing
	case "", "application/json":
		return mediaJSON, nil
	case "application/x-www-form-urlencoded":
		return mediaForm, nil
	}
	base, params, err := mime.ParseMediaType(value)
	if err != nil {
		return 0, unsupportedMedia(value, true)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return 0, unsupportedMedia(value, true)
	}
	switch {
	case base == "text/plain":
		return mediaText, nil
	case base == "application/x-ndjson", base == "application/ndjson":
		return mediaNDJSON, nil
	case base == "application/x-www-form-urlencoded":
		return mediaForm, nil
	case isJSON(base):
		return mediaJSON, nil
	}
	return 0, unsupportedMedia(value, true)
}

// wantJSON checks the body's type for a call that takes only JSON.
func wantJSON(r *http.Request) error {
	m, err := mediaOf(r)
	if err != nil || m == mediaText || m == mediaNDJSON {
		return unsupportedMedia(r.Header.Get("Content-Type"), false)
	}
	return nil
}

func isJSON(base string) bool {
	return base == "application/json" || strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json")
}

func unsupportedMedia(value string, streams bool) error {
	known := []string{"application/json"}
	if streams {
		known = append(known, "application/x-ndjson", "text/plain")
	}
	return &problem.Error{
		Code:   problem.UnsupportedMedia,
		Detail: "Content-Type " + strconv.Quote(value) + ": want " + strings.Join(known, ", ") + ", in UTF-8",
		Known:  known,
		Header: [2]string{"Accept-Post", strings.Join(known, ", ")},
	}
}

const (
	// minBytesPerSecond is the required speed.
	minBytesPerSecond = 1 << 10

	paceSteps = 8 // of a window
)

// pace decides whether a client sends fast enough to be waited for: whether minBytesPerSecond have come
// during the last window. Earlier bytes do not count, because a client that stops near the end would still
// hold the whole body in memory. It reads neither clock nor data.
type pace struct {
	window time.Duration
	start  time.Time
	marks  [paceSteps + 1]paceMark // a ring, each a step or more after the one before: the oldest is a window ago
	next   int                     // of marks, the oldest
}

type paceMark struct {
	at    time.Duration // since start
	bytes int64         // received by then
}

// begin starts a window of this length at now.
func (p *pace) begin(window time.Duration, now time.Time) { *p = pace{window: window, start: now} }

// keeps reports whether the bytes received by now are enough.
func (p *pace) keeps(now time.Time, bytes int64) bool {
	at := now.Sub(p.start)
	if at < p.window {
		p.note(at, bytes)
		return true
	}
	var from paceMark // the latest at least a window ago
	for _, m := range p.marks {
		if at-m.at >= p.window && m.at > from.at {
			from = m
		}
	}
	p.note(at, bytes)
	return bytes-from.bytes >= int64((at-from.at).Seconds()*minBytesPerSecond)
}

func (p *pace) note(at time.Duration, bytes int64) {
	last := &p.marks[(p.next+paceSteps)%len(p.marks)]
	if at-last.at < p.window/paceSteps {
		return
	}
	p.marks[p.next] = paceMark{at, bytes}
	p.next = (p.next + 1) % len(p.marks)
}
