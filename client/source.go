package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
)

// source is the body of a stream. It keeps the error of the reader behind it, which the
// transport would hide behind its own, and it ends with the call: net/http waits for a
// Read of a request's body to return before it gives up a request, and a Read of a
// terminal or a pipe may never return.
type source struct {
	from    io.Reader
	length  int64       // -1: not known
	touched atomic.Bool // something of it was read, so that it cannot be sent again

	mu  sync.Mutex
	err error

	stop func()
}

var errCallOver = errors.New("the call is over")

// newSource reads r for a call that lasts as long as ctx. Data in memory is sent as it is;
// anything else is read by a goroutine that, when the call is over, ends after the Read in
// progress.
func newSource(ctx context.Context, r io.Reader) *source {
	length := int64(-1)
	switch r := r.(type) {
	case *bytes.Reader:
		length = int64(r.Len())
	case *bytes.Buffer:
		length = int64(r.Len())
	case *strings.Reader:
		length = int64(r.Len())
	}
	switch {
	case length >= 0:
		return &source{from: r, length: length, stop: func() {}}
	}
	pr, pw := io.Pipe()
	s := &source{from: pr, length: -1}
	unwatch := context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) }) // the transport then reads this error
	s.stop = func() {
		unwatch()
		pr.CloseWithError(errCallOver)
	}
	go s.pump(r, pw)
	return s
}

// Read is called by the transport.
func (s *source) Read(p []byte) (int, error) {
	s.touched.Store(true)
	return s.from.Read(p)
}

func (s *source) pump(r io.Reader, pw *io.PipeWriter) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, closed := pw.Write(buf[:n]); closed != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
			pw.CloseWithError(err)
			return
		}
	}
}

// Close ends the reading.
func (s *source) Close() { s.stop() }

// blame returns the source's own error if there is one, and otherwise err.
func (s *source) blame(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("input: %w", s.err)
	}
	return err
}
