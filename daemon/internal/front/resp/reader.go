package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

const (
	// startBuffer is the size of a connection's own buffer, which it has while it waits.
	startBuffer = 4 << 10
	// maxPooled is the size of the largest buffer that is kept for the next command that needs it.
	maxPooled = 1 << 20
	// inlineBytes bounds a command that is a line of text, and the head of an argument.
	inlineBytes = 64 << 10
	// mostBytes is how large a command can be: a span has 32 bits for a position in the buffer, which may
	// be larger than the command by inlineBytes.
	mostBytes = math.MaxUint32 - inlineBytes
	// A caller that must still log in can send no more than this.
	strangerArgs, strangerBytes = 16, 16 << 10
)

// protocolError is the end of a connection: what follows cannot be understood.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// errBudget ends a connection whose command would need more memory than all calls may have.
var errBudget = errors.New("too much is being received at once")

// reader reads commands into one buffer, in which the arguments stay until release. The zero
// value with a source is ready for use.
type reader struct {
	src   io.Reader
	buf   []byte
	r, w  int // what is read and not yet done is buf[r:w]
	bytes int // bound of one command
	count int // bound of its arguments

	// The command that is being read: it may come in pieces.
	pos  int // how far it is parsed
	left int // arguments that are still to come; -1: its head is
	args []scan.Span

	own   []byte // buffer while nothing larger is needed
	usual int    // size of the buffer that the last command needed: the next one likely does, too

	held int              // bytes of buf that were taken from the budget
	take func(n int) bool // of the budget; false: there is no more
	give func(n int)
}

// arg returns an argument.
func (rd *reader) arg(s scan.Span) []byte { return rd.buf[s.Start:s.End:s.End] }

// next parses the next command, if the buffer has all of it. It moves nothing, so the arguments
// of earlier commands stay valid, but appends to args, which the caller may have cut.
func (rd *reader) next() (ok bool, err error) {
	for rd.r < rd.w {
		if rd.left < 0 {
			rd.args = rd.args[:0]
			switch ok, err := rd.head(); {
			case err != nil || !ok:
				return false, err
			case rd.left == 0 && len(rd.args) == 0: // an empty command, which has no answer
				rd.done()
				continue
			}
		}
		for rd.left > 0 {
			if ok, err := rd.bulk(); err != nil || !ok {
				return false, err
			}
		}
		rd.done()
		return true, nil
	}
	return false, nil
}

// within reports whether a part of a command has come.
func (rd *reader) within() bool { return rd.r < rd.w || rd.left >= 0 }

func (rd *reader) done() { rd.r, rd.left = rd.pos, -1 }

// line finds the line from pos on, without its end.
func (rd *reader) line(from int) (text []byte, end int, err error) {
	rest := rd.buf[from:rd.w]
	i := bytes.IndexByte(rest, '\n')
	switch {
	case i < 0 && len(rest) > inlineBytes:
		return nil, 0, protocolError("too big inline request")
	case i < 0:
		return nil, 0, nil
	}
	return bytes.TrimSuffix(rest[:i], []byte{'\r'}), from + i + 1, nil
}

// head parses the head of a command, or all of one that is a line of text.
func (rd *reader) head() (ok bool, err error) {
	text, end, err := rd.line(rd.r)
	if err != nil || end == 0 {
		return false, err
	}
	if rd.buf[rd.r] != '*' {
		rd.pos, rd.left = end, 0
		return true, rd.inline(rd.r, rd.r+len(text))
	}
	n, ok := number(text[1:])
	if !ok || n > rd.count {
		return false, protocolError("invalid multibulk length")
	}
	rd.pos, rd.left = end, max(0, n)
	return true, nil
}

// shortHead parses the head of an argument as most are: with up to four digits, and all of it there.
func shortHead(b []byte) (n, size int) {
	if len(b) < 7 || b[0] != '$' {
		return 0, 0
	}
	for i, c := range b[1:6] {
		switch {
		case '0' <= c && c <= '9' && i < 4:
			n = n*10 + int(c-'0')
		case c == '\r' && i > 0 && b[i+2] == '\n':
			return n, i + 3
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// bulk parses an argument.
func (rd *reader) bulk() (ok bool, err error) {
	n, size := shortHead(rd.buf[rd.pos:rd.w])
	end := rd.pos + size
	if size == 0 {
		var text []byte
		text, end, err = rd.line(rd.pos)
		if err != nil || end == 0 {
			return false, err
		}
		if len(text) == 0 || text[0] != '$' {
			return false, protocolError(fmt.Sprintf("expected '$', got '%c'", append(text, ' ')[0]))
		}
		if n, ok = number(text[1:]); !ok || n < 0 {
			return false, protocolError("invalid bulk length")
		}
	}
	if n > rd.bytes {
		return false, protocolError("invalid bulk length")
	}
	if end-rd.r+n > rd.bytes {
		return false, protocolError(fmt.Sprintf("too big command: want %d bytes at most (limits.body_bytes)", rd.bytes))
	}
	if rd.w < end+n+2 {
		return false, nil
	}
	if rd.buf[end+n] != '\r' || rd.buf[end+n+1] != '\n' {
		return false, protocolError("expected CRLF after an argument")
	}
	rd.args = append(rd.args, scan.Span{Start: uint32(end), End: uint32(end + n)})
	rd.pos, rd.left = end+n+2, rd.left-1
	return true, nil
}

// inline splits a line of text at white space; an argument in quotes may have some.
func (rd *reader) inline(from, to int) error {
	line := rd.buf[:to]
	for i := from; i < to; {
		switch c := line[i]; c {
		case ' ', '\t', '\r', 0:
			i++
		case '"', '\'':
			j := bytes.IndexByte(line[i+1:], c)
			if j < 0 || bytes.IndexByte(line[i+1:i+1+j], '\\') >= 0 || i+j+2 < to && line[i+j+2] != ' ' && line[i+j+2] != '\t' {
				return protocolError("unbalanced quotes in request")
			}
			rd.args = append(rd.args, scan.Span{Start: uint32(i + 1), End: uint32(i + 1 + j)})
			i += j + 2
		default:
			j := bytes.IndexAny(line[i:], " \t\x00")
			if j < 0 {
				j = to - i
			}
			rd.args = append(rd.args, scan.Span{Start: uint32(i), End: uint32(i + j)})
			i += j
		}
	}
	return nil
}

// number parses a length, which may be -1.
func number(text []byte) (n int, ok bool) {
	digits, negative := bytes.CutPrefix(text, []byte{'-'})
	if len(digits) == 0 || len(digits) > 10 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// fill reads more from the connection. Arguments of earlier commands are not valid any more.
func (rd *reader) fill() error {
	if rd.r == rd.w && rd.left < 0 {
		rd.reset()
	}
	if rd.w == len(rd.buf) {
		if err := rd.makeRoom(); err != nil {
			return err
		}
	}
	n, err := rd.src.Read(rd.buf[rd.w:])
	rd.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// buffers keeps buffers of commands, by the power of two that is their size.
var buffers [bits.UintSize]sync.Pool

func pooled(size int) []byte {
	if b, ok := buffers[bits.Len(uint(size))].Get().(*[]byte); ok && len(*b) == size {
		return *b
	}
	return make([]byte, size)
}

// pool keeps a buffer, which nobody may use any more, unless it is a connection's own or too large.
func pool(b []byte) {
	if n := len(b); n > startBuffer && n <= maxPooled && n&(n-1) == 0 {
		buffers[bits.Len(uint(n))].Put(&b)
	}
}

// reset empties the buffer, and returns a large one to the budget and to those who need it next.
func (rd *reader) reset() {
	rd.r, rd.w, rd.pos, rd.args = 0, 0, 0, rd.args[:0]
	if len(rd.buf) > startBuffer {
		rd.usual = min(len(rd.buf), maxPooled)
		rd.release()
	}
	if rd.own == nil {
		rd.own = make([]byte, startBuffer)
	}
	rd.buf = rd.own
}

// release gives a large buffer up.
func (rd *reader) release() {
	rd.give(rd.held)
	pool(rd.buf)
	rd.buf, rd.held = nil, 0
	if cap(rd.args) > maxPooled/64 {
		rd.args = nil
	}
}

// makeRoom moves what is left to the front of the buffer, or of a larger one.
func (rd *reader) makeRoom() error {
	to := rd.buf
	if rd.r < len(rd.buf)/2 {
		least := min(2*len(rd.buf), rd.bytes+inlineBytes)
		if least <= len(rd.buf) {
			return protocolError("too big command")
		}
		size := max(least, min(rd.usual, rd.bytes+inlineBytes))
		if !rd.take(size) {
			if size == least || !rd.take(least) {
				return errBudget
			}
			size = least
		}
		to = pooled(size)
		rd.give(rd.held)
		rd.held = size
	}
	copy(to, rd.buf[rd.r:rd.w])
	for i := range rd.args {
		rd.args[i].Start -= uint32(rd.r)
		rd.args[i].End -= uint32(rd.r)
	}
	rd.pos -= rd.r
	if len(to) != len(rd.buf) {
		pool(rd.buf)
	}
	rd.buf, rd.r, rd.w = to, 0, rd.w-rd.r
	return nil
}
