package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const streamHead = "POST /api/v1/filter?filter_typeid=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"

// numbered writes n different lines of 66 bytes, from first on.
func numbered(w io.Writer, first, n int) error {
	b := bufio.NewWriterSize(w, 64<<10)
	for i := range n {
		if _, err := fmt.Fprintf(b, "https://www.example.com/a/rather/ordinary/path/of/a/page?n=%06d\n", first+i); err != nil {
			return err
		}
	}
	return b.Flush()
}

// streaming posts what send writes, and reads nothing before send is done.
func streaming(r *rig, send func(io.Writer) error) (*http.Response, *net.TCPConn) {
	r.t.Helper()
	conn := r.dial()
	io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
	if err := send(chunker{conn}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, conn
}

type chunker struct{ io.Writer }

func (c chunker) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(c.Writer, "%x\r\n%s\r\n", len(p), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lineCount counts and checks the lines of an answer to numbered: each of them comes as
// it was sent and in its order. A filter may take a few for seen: they are missing.
func lineCount(t testing.TB, r io.Reader, first int) int {
	t.Helper()
	n, number := 0, first
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
		for !bytes.HasSuffix(line, fmt.Appendf(nil, "n=%06d\n", number)) {
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

// A client may send hundreds of megabytes before it reads a byte; the answer waits on
// disk, not in memory.
func TestStreamThatIsReadOnlyAfterwards(t *testing.T) {
	n := 3_000_000 // 200 MB
	if raceEnabled {
		n = 600_000
	}
	r := newRig(t)
	r.do("PUT", "/api/v1/filters/big", fmt.Sprintf(`{"id":9,"capacity":%d,"error_rate":0.000001}`, 2*n), "Content-Type", jsonType)
	runtime.GC() // what earlier tests left; twice for what lies in pools
	runtime.GC()
	var peak atomic.Uint64
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
		}
	}()
	conn := r.dial()
	io.WriteString(conn, strings.Replace(streamHead, "=1 ", "=9 ", 1)+"Transfer-Encoding: chunked\r\n\r\n")
	if err := numbered(chunker{conn}, 0, n); err != nil {
		t.Fatal(err)
	}
	if r.api.spool.Used() < int64(n)*60-(16<<20) {
		t.Errorf("only %d bytes wait on disk; the test does not test what it should", r.api.spool.Used())
	}
	io.WriteString(conn, "0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := lineCount(t, resp.Body, 0); got < n-3 || got > n {
		t.Errorf("%d lines are new, want %d", got, n)
	}
	close(stop)
	<-watched
	if total := resp.Trailer.Get("Urifilter-Total"); total != fmt.Sprint(n) {
		t.Errorf("trailer %s: got %q, want %d", headerTotal, total, n)
	}
	t.Logf("peak heap %d MiB for a stream of %d MB", peak.Load()>>20, n*66/1_000_000)
	if peak.Load() > 48<<20 {
		t.Errorf("heap reached %d MiB", peak.Load()>>20)
	}
	// The connection is good for another request.
	io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if rest, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 200 OK") {
		t.Errorf("after the stream: %.200q, %v", rest, err)
	}
}

func TestStreamTrailers(t *testing.T) {
	r := newRig(t)
	send := func(w io.Writer) error { return numbered(w, 0, 50_000) }
	resp, _ := streaming(r, send)
	if got := lineCount(t, resp.Body, 0); got != 50_000 {
		t.Errorf("%d new, want 50000", got)
	}
	resp, _ = streaming(r, send)
	if got := lineCount(t, resp.Body, 0); got != 0 {
		t.Errorf("%d new again", got)
	}
	if resp.Trailer.Get(headerTotal) != "50000" || resp.Trailer.Get(headerDuplicates) != "50000" {
		t.Errorf("trailers: %v", resp.Trailer)
	}
}

// The first batch is answered while the client still sends.
func TestStreamIsAnsweredWhileItComes(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
	if err := numbered(chunker{conn}, 0, 20_000); err != nil { // 1.3 MB: more than a batch
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := lineCount(t, io.LimitReader(resp.Body, 66*15_000), 0); got != 15_000 {
		t.Errorf("%d lines before the end was sent, want 15000", got)
	}
	if err := numbered(chunker{conn}, 20_000, 1); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "0\r\n\r\n")
	if got := lineCount(t, resp.Body, 15_000); got != 5001 {
		t.Errorf("%d lines at the end, want 5001", got)
	}
}

func TestStreamInHTTP2(t *testing.T) {
	r := newRig(t)
	ts := httptest.NewUnstartedServer(r.api)
	ts.EnableHTTP2 = true
	ts.StartTLS()
	defer ts.Close()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(numbered(pw, 0, 100_000)) }()
	resp, err := ts.Client().Post(ts.URL+"/api/v1/filter?filter_typeid=1", textType, pr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := lineCount(t, resp.Body, 0); got != 100_000 || resp.ProtoMajor != 2 {
		t.Errorf("%d new through %s, want 100000 through HTTP/2", got, resp.Proto)
	}
	if got := resp.Trailer.Get(headerTotal); got != "100000" {
		t.Errorf("trailer: got %q", got)
	}
}

// HTTP/1.0 has no chunks that would show a cut, so its answer waits for the end.
func TestStreamInHTTP10(t *testing.T) {
	r := newRig(t)
	var body bytes.Buffer
	numbered(&body, 0, 60_000)
	send := func(text string) (*http.Response, error) {
		conn := r.dial()
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", strings.Replace(streamHead, "/1.1", "/1.0", 1), len(text), text)
		return http.ReadResponse(bufio.NewReader(conn), nil)
	}
	resp, err := send(body.String())
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(body.Len()) || resp.Header.Get(headerTotal) != "60000" {
		t.Errorf("got length %d, total %q; want %d, 60000", resp.ContentLength, resp.Header.Get(headerTotal), body.Len())
	}
	if got := lineCount(t, resp.Body, 0); got != 60_000 {
		t.Errorf("%d new, want 60000", got)
	}
	if resp, err := send(body.String() + strings.Repeat("x", 70_000) + "\n"); err == nil {
		t.Errorf("a stream that broke in its middle was answered %s", resp.Status)
	}
}
