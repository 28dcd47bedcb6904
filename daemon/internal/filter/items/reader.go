package items

import (
	"bytes"
	"fmt"
	"io"
)

// Format is how a stream holds its items.
type Format int

const (
	Lines  Format = iota // one item a line, any bytes, taken as they are
	NDJSON               // one JSON value a line
)

const (
	minBlock = 64
	maxBlock = 1 << 30
	// maxLine is the longest line where Limits has no ItemBytes.
	maxLine = 64 << 20
	// sparse is how many times as long as its canonical bytes the JSON text of a
	// string may be: "\u0061" is a.
	sparse = 6
	// idleReads is how many empty reads in a row mean that the source is broken.
	idleReads = 100
)

// Reader cuts a stream into batches. It holds one block of it, however long the
// stream is. LF or CR LF ends a line, and the end of the stream the last one; blank
// lines are not items; a UTF-8 byte-order mark before the first line is skipped.
// It is not safe for concurrent use.
type Reader struct {
	// Grow is called before the block grows by more bytes, for a line that is longer; an
	// error that it returns ends the reading. Nil: the block may grow.
	Grow func(more int) error

	src       io.Reader
	format    Format
	lim       Limits
	lineLimit int // bytes of a line
	err       error

	buf  []byte
	base int // where the batch begins in buf
	used int // what the batch has taken, from base on
	fill int // where the bytes that were read end in buf
	eof  bool

	long   bool  // the line at base was too long, and its end is not found yet
	offset int64 // of base in the stream
	line   int   // number in the stream of the first line that is not taken
}

// NewReader makes a reader of batches of at most lim.Items items and about block bytes
// (64 to 1 GiB). A line may be longer than a block, as lim.ItemBytes allows; without
// ItemBytes 64 MiB is the limit. It reads nothing yet.
func NewReader(r io.Reader, f Format, lim Limits, block int) *Reader {
	block = min(max(block, minBlock), maxBlock)
	limit := max(block, maxLine)
	if lim.ItemBytes > 0 && lim.ItemBytes < maxBlock/sparse {
		if limit = lim.ItemBytes; f == NDJSON {
			limit = sparse*lim.ItemBytes + block
		}
	}
	return &Reader{src: r, format: f, lim: lim, lineLimit: limit, buf: make([]byte, block)}
}

// Next fills l with the next batch and reports whether there was one: after the last
// it returns false and nil. It waits for a whole block (or lim.Items items), so that
// small reads of the source do not make small batches. The batch is valid until the
// next call.
//
// An error of the source is wrapped. What is wrong with the data is an *Error, whose
// Index is the number of the line and whose Offset the byte in the stream; the items
// before it in the batch are not returned. After an error every call returns it. With
// Limits.Skip such lines are left out of the list, which may then have no item at all.
func (r *Reader) Next(l *List) (more bool, err error) {
	l.Reset()
	l.lines = r.format == Lines
	r.consume()
	for r.err == nil {
		if r.err = r.cut(l); r.err != nil || r.eof || r.full(l) {
			break
		}
		if r.fill == len(r.buf) && !r.makeRoom(l) {
			break
		}
		r.err = r.read()
	}
	if r.err != nil || l.sent() == 0 {
		l.Reset()
		return false, r.err
	}
	return true, nil
}

func (r *Reader) full(l *List) bool { return r.lim.Items > 0 && l.sent() >= r.lim.Items }

// consume drops what the batch has taken.
func (r *Reader) consume() {
	r.offset += int64(r.used)
	r.base += r.used
	r.used = 0
}

// makeRoom makes room to read into when buf is full and the line at its end is not
// whole; it returns false if the batch ends here, or r.err is set.
func (r *Reader) makeRoom(l *List) bool {
	if l.Len() == 0 {
		r.consume() // blank lines
	}
	switch {
	case r.base > 0:
		// The spans count from base on, so they stay right.
		r.fill = copy(r.buf, r.buf[r.base:r.fill])
		r.base = 0
	case l.Len() > 0:
		return false
	case len(r.buf) >= r.lineLimit+len("\r\n"):
		err := r.tooLong(0)
		if !r.lim.Skip {
			r.err = err
			return false
		}
		l.skip(err)
		r.long, r.used = true, r.fill
		r.consume()
		r.base, r.fill = 0, 0
	default:
		size := min(2*len(r.buf), r.lineLimit+len("\r\n"))
		if r.Grow != nil {
			if r.err = r.Grow(size - len(r.buf)); r.err != nil {
				return false
			}
		}
		r.buf = append(make([]byte, 0, size), r.buf...)
		r.buf = r.buf[:cap(r.buf)]
	}
	return true
}

// read fills buf, as far as the source goes.
func (r *Reader) read() error {
	first := r.offset == 0 && r.fill == 0
	for idle := 0; r.fill < len(r.buf); idle++ {
		n, err := r.src.Read(r.buf[r.fill:])
		r.fill += n
		if n > 0 {
			idle = 0
		}
		if err == io.EOF {
			r.eof = true
			break
		}
		if err == nil && idle == idleReads {
			err = io.ErrNoProgress
		}
		if err != nil {
			return fmt.Errorf("items after byte %d: %w", r.offset+int64(r.fill-r.base), err)
		}
	}
	if first && bytes.HasPrefix(r.buf[:r.fill], []byte("\ufeff")) {
		r.used = len("\ufeff")
		r.consume()
	}
	return nil
}

// cut adds whole lines to l, as many as buf has and the limit allows.
func (r *Reader) cut(l *List) error {
	l.body = r.buf[r.base:r.fill]
	for !r.full(l) && r.used < len(l.body) {
		if r.long && !r.passLong(l.body) {
			return nil
		}
		start, end := r.used, len(l.body)
		if n := bytes.IndexByte(l.body[start:], '\n'); n >= 0 {
			end = start + n
			r.used = end + 1
			if n > 0 && l.body[end-1] == '\r' {
				end--
			}
		} else if r.eof {
			r.used = end
		} else {
			return nil
		}
		if end > start {
			before := l.mark()
			if err := r.addLine(l, start, end); err != nil {
				if !r.lim.Skip {
					return err
				}
				l.rewind(before)
				l.skip(err)
			}
		}
		r.line++
	}
	return nil
}

// passLong skips a line that was left out as too long, as far as it has been read.
func (r *Reader) passLong(body []byte) (whole bool) {
	n := bytes.IndexByte(body[r.used:], '\n')
	if n < 0 {
		r.used = len(body)
		return false
	}
	r.used += n + 1
	r.long = false
	r.line++
	return true
}

// addLine adds the line l.body[start:end], which is not empty.
func (r *Reader) addLine(l *List, start, end int) *Error {
	if r.format == Lines {
		if r.lim.itemTooLarge(end - start) {
			return r.tooLong(start)
		}
		l.add(start, end)
		return nil
	}
	p := parser{body: l.body[:end], pos: start, list: l, lim: r.lim, item: r.line}
	if p.space(); p.pos == end {
		return nil
	}
	err := p.value(0)
	if err == nil {
		err = p.end()
	}
	if err != nil {
		err.Offset += r.offset
		return err
	}
	return nil
}

// tooLong is the error for the line that begins at l.body[start].
func (r *Reader) tooLong(start int) *Error {
	return &Error{ItemTooLarge, r.line, r.offset + int64(start), fmt.Sprintf("line of more than %d bytes", r.lineLimit)}
}
