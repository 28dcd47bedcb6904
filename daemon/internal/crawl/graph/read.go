package graph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader reads the file of a graph. It is one goroutine's.
type Reader struct {
	name string
	r    *bufio.Reader
	line int
	read int64
	cut  bool
}

// NewReader reads from r; name is what errors call it.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, r: bufio.NewReaderSize(r, 64<<10)}
}

// Next is the next edge; io.EOF: there is none. Other errors name file and line. A last line without
// its line feed is one that a crash has cut off, or that is being written: it is left out, and Cut
// tells of it.
func (r *Reader) Next() (Edge, error) {
	var e Edge
	text, err := r.next()
	if err != nil {
		return e, err
	}
	switch err := json.Unmarshal(text, &e); {
	case err != nil:
		return e, r.fault(fmt.Errorf("no link: %w", err))
	case e.From == "" || e.To == "":
		return e, r.fault(errors.New(`no link: want {"from": URI, "to": URI, "text": ..., "rel": ...}`))
	}
	return e, nil
}

// next is the text of the next line, which is good until the next call.
func (r *Reader) next() ([]byte, error) {
	text, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(text)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= MaxLine {
			text, err = r.r.ReadSlice('\n')
			long = append(long, text...)
		}
		text = long
	}
	if len(text) > MaxLine {
		r.line++
		return nil, r.fault(fmt.Errorf("longer than %d bytes", MaxLine))
	}
	switch {
	case err == io.EOF:
		r.cut = len(text) > 0
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s: after line %d: %w", r.name, r.line, err)
	}
	r.line++
	r.read += int64(len(text))
	return text, nil
}

func (r *Reader) fault(err error) error { return fmt.Errorf("%s:%d: %w", r.name, r.line, err) }

// Cut tells, at the end, whether there was a last line without its line feed.
func (r *Reader) Cut() bool { return r.cut }

// Bytes is the length of all lines that were read.
func (r *Reader) Bytes() int64 { return r.read }
