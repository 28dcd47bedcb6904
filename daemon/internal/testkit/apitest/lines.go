package apitest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
)

// StreamHead begins a request with lines of text; its length and an empty line follow.
const StreamHead = "POST /api/v1/filter?filter_typeid=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"

const lineStart = "https://www.example.com/a/rather/ordinary/path/of/a/page?n="

// appendNumber ends a line with its number, in at least six digits. Package fmt would use most of the
// time of tests with many lines.
func appendNumber(line []byte, n int) []byte {
	for least := 100_000; n < least && least > 1; least /= 10 {
		line = append(line, '0')
	}
	return append(strconv.AppendInt(line, int64(n), 10), '\n')
}

// Numbered writes n different lines of 66 bytes, starting with number first.
func Numbered(w io.Writer, first, n int) error {
	b := bufio.NewWriterSize(w, 64<<10)
	for i := range n {
		if _, err := b.Write(appendNumber(append(b.AvailableBuffer(), lineStart...), first+i)); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Streaming posts what send writes, and reads only after send is done.
func Streaming(r *Rig, send func(io.Writer) error) (*http.Response, *net.TCPConn) {
	r.T.Helper()
	conn := r.Dial()
	io.WriteString(conn, StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
	if err := send(chunker{conn}); err != nil {
		r.T.Fatal(err)
	}
	if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
		r.T.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.T.Fatal(err)
	}
	return resp, conn
}

// Chunked turns each write into one chunk of HTTP.
func Chunked(w io.Writer) io.Writer { return chunker{w} }

type chunker struct{ io.Writer }

func (c chunker) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(c.Writer, "%x\r\n%s\r\n", len(p), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// LineCount counts and checks the lines of an answer to Numbered: each must be as it was
// sent, and in order. A filter may take a few for seen: these are missing.
func LineCount(t testing.TB, r io.Reader, first int) int {
	t.Helper()
	n, number, want := 0, first, make([]byte, 0, len(lineStart)+20)
	for in := bufio.NewReader(r); ; n++ {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Errorf("line %d: %v", n, err)
			return n
		}
		from := number
		for !bytes.HasSuffix(line, appendNumber(want, number)) {
			if number++; number > from+3 {
				t.Errorf("line %d: got %q, want %d at its end", n, line, from)
				return n
			}
		}
		if number > from {
			t.Logf("line %d was not new", from)
		}
		number++
	}
}
