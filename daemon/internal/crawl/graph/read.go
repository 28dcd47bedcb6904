package graph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader reads the file of a graph. It is for one goroutine.
type Reader struct {
	name string
	r    *bufio.Reader
	line int
	read int64
	cut  bool
}

// NewReader reads from r; errors use the name.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, r: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next edge; io.EOF: there is none. Other errors name file and line. A last line
// without its line feed was cut off by a crash, or is still being written: Next ignores it, and Cut
// reports it.
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

// next returns the text of the next line, which is valid until the next call.
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

// Cut reports, at the end, whether the last line had no line feed.
func (r *Reader) Cut() bool { return r.cut }

// Bytes is the length of all lines that were read.
func (r *Reader) Bytes() int64 { return r.read }
