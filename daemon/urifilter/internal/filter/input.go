package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

const (
	// The daemon answers a body of up to these sizes as one batch, all or nothing.
	batchBytes = 1<<20 - 1
	batchLines = 10_000

	chunkBytes = 256 << 10
	readAhead  = 3 // chunks, so that with the one being read a batch can be full
	// lineBytes is the length from which a line is no longer accepted.
	lineBytes = 64 << 20
)

var byteOrderMark = []byte("\ufeff")

// batch is some whole lines of the input, valid until the next is taken.
type batch struct {
	data  []byte
	first int64 // number of its first line, from 1
	lines int64
	// padded: an empty line was put before data, so that what follows is not at the
	// start of a request, where a byte order mark is skipped.
	padded bool
}

func (b batch) last() int64 { return b.first + b.lines - 1 }

// line returns the number in the input of line index (from 0) of the request.
func (b batch) line(index int) int64 {
	if b.padded {
		index--
	}
	return b.first + int64(index)
}

// input splits a source into batches. A goroutine reads ahead while a batch is under way,
// so that the next batch is what has come in the meantime: many lines of a file, a single line
// of a person who types.
type input struct {
	chunks chan chunk
	free   chan []byte
	done   chan struct{}

	pending []byte
	used    int   // of pending, by the last batch
	line    int64 // lines before pending[used:]
	end     error // what ended the source; nil: more may come
}

type chunk struct {
	data []byte
	err  error
}

// newInput starts reading r. close must follow.
func newInput(r io.Reader) *input {
	in := &input{chunks: make(chan chunk, readAhead), free: make(chan []byte, readAhead+1), done: make(chan struct{})}
	for range cap(in.free) {
		in.free <- make([]byte, chunkBytes)
	}
	go in.read(r)
	return in
}

// close ends the reading; a pending Read ends in its own time.
func (in *input) close() { close(in.done) }

func (in *input) read(r io.Reader) {
	for {
		var c chunk
		select {
		case c.data = <-in.free:
		case <-in.done:
			return
		}
		var n int
		n, c.err = r.Read(c.data[:chunkBytes])
		c.data = c.data[:n]
		select {
		case in.chunks <- c:
		case <-in.done:
			return
		}
		if c.err != nil {
			return
		}
	}
}

// appendChunk adds a chunk to the pending bytes, and reports whether a line ends in it.
func (in *input) appendChunk(c chunk) bool {
	in.pending = append(in.pending, c.data...)
	in.end = c.err
	ends := bytes.IndexByte(c.data, '\n') >= 0
	in.free <- c.data
	return ends
}

// next waits for at least one line, and returns all that have come, as far as they fit.
// The error is io.EOF at the end, the cause of the end of ctx, or that of the source.
func (in *input) next(ctx context.Context) (batch, error) {
	in.pending = append(in.pending[:0], in.pending[in.used:]...)
	in.used = 0
	whole := bytes.IndexByte(in.pending, '\n') >= 0
	for in.end == nil && !(whole && len(in.pending) >= batchBytes) && len(in.pending) <= lineBytes && ctx.Err() == nil {
		select {
		case c := <-in.chunks:
			whole = in.appendChunk(c) || whole
			continue
		default:
		}
		if whole {
			break
		}
		select {
		case c := <-in.chunks:
			whole = in.appendChunk(c)
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return batch{}, context.Cause(ctx)
	}
	return in.cut()
}

// cut takes as many of the pending whole lines as fit.
func (in *input) cut() (batch, error) {
	b := batch{first: in.line + 1}
	for b.lines < batchLines {
		n := bytes.IndexByte(in.pending[in.used:], '\n') + 1
		if n == 0 || in.used > 0 && in.used+n > batchBytes {
			break
		}
		in.used += n
		b.lines++
	}
	if b.lines == 0 {
		switch {
		case in.end == nil:
			return b, &longLineError{b.first}
		case !errors.Is(in.end, io.EOF):
			return b, fmt.Errorf("input: %w", in.end)
		case len(in.pending) == 0:
			return b, io.EOF
		}
		in.used, b.lines = len(in.pending), 1 // the last line, without a line end
	}
	in.line += b.lines
	b.data = in.pending[:in.used]
	if b.first > 1 && bytes.HasPrefix(b.data, byteOrderMark) {
		b.data, b.padded = append([]byte{'\n'}, b.data...), true
	}
	return b, nil
}

// longLineError is returned by next at a line of more than lineBytes; skipLine skips it.
type longLineError struct{ line int64 }

func (e *longLineError) Error() string {
	return fmt.Sprintf("line %s: %s", human.Count(e.line), longerThan)
}

var longerThan = fmt.Sprintf("longer than %d MiB", lineBytes>>20)

// skipLine skips the line that pending begins with, and which has not ended yet. It returns
// its length in bytes, and why it could not be skipped whole.
func (in *input) skipLine(ctx context.Context) (skipped int64, err error) {
	for in.end == nil && bytes.IndexByte(in.pending, '\n') < 0 {
		skipped += int64(len(in.pending))
		in.pending = in.pending[:0]
		select {
		case c := <-in.chunks:
			in.appendChunk(c)
		case <-ctx.Done():
			return skipped, context.Cause(ctx)
		}
	}
	in.used = bytes.IndexByte(in.pending, '\n') + 1
	if in.used == 0 {
		in.used = len(in.pending) // it has no line end
	}
	in.line++
	return skipped + int64(in.used), nil
}
