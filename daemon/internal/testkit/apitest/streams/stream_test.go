package streams_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A client may send hundreds of megabytes before it reads a byte; the answer waits on
// disk, not in memory.
func TestStreamThatIsReadOnlyAfterwards(t *testing.T)       { readOnlyAfterwards(t, 300_000) }
func TestNoRaceStreamThatIsReadOnlyAfterwards(t *testing.T) { readOnlyAfterwards(t, 1_500_000) } // 100 MB

func readOnlyAfterwards(t *testing.T, n int) {
	r := apitest.New(t)
	r.Do("PUT", "/api/v1/filters/big", fmt.Sprintf(`{"id":9,"capacity":%d,"error_rate":0.000001}`, 2*n), "Content-Type", apitest.JSONType)
	runtime.GC() // garbage of earlier tests; twice because of pools
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(100))
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
	conn := r.Dial()
	io.WriteString(conn, strings.Replace(apitest.StreamHead, "=1 ", "=9 ", 1)+"Transfer-Encoding: chunked\r\n\r\n")
	if err := apitest.Numbered(apitest.Chunked(conn), 0, n); err != nil {
		t.Fatal(err)
	}
	onDisk := func() int64 {
		_, waiting := r.API.Held()
		return waiting
	}
	testserver.Await(t, "most of the lines wait on disk", func() bool { return onDisk() >= int64(n)*60-(16<<20) })
	io.WriteString(conn, "0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := apitest.LineCount(t, resp.Body, 0); got < n-3 || got > n {
		t.Errorf("%d lines are new, want %d", got, n)
	}
	close(stop)
	<-watched
	if total := resp.Trailer.Get("Urifilter-Total"); total != fmt.Sprint(n) {
		t.Errorf("trailer %s: got %q, want %d", "Urifilter-Total", total, n)
	}
	t.Logf("peak heap %d MiB for a stream of %d MB", peak.Load()>>20, n*66/1_000_000)
	if peak.Load() > 48<<20 {
		t.Errorf("heap reached %d MiB", peak.Load()>>20)
	}
	// The connection can be used for another request.
	io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if rest, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 200 OK") {
		t.Errorf("after the stream: %.200q, %v", rest, err)
	}
}

func TestStreamTrailers(t *testing.T) {
	r := apitest.New(t)
	send := func(w io.Writer) error { return apitest.Numbered(w, 0, 30_000) }
	resp, _ := apitest.Streaming(r, send)
	if got := apitest.LineCount(t, resp.Body, 0); got != 30_000 {
		t.Errorf("%d new, want 30000", got)
	}
	resp, _ = apitest.Streaming(r, send)
	if got := apitest.LineCount(t, resp.Body, 0); got != 0 {
		t.Errorf("%d new again", got)
	}
	if resp.Trailer.Get("Urifilter-Total") != "30000" || resp.Trailer.Get("Urifilter-Duplicates") != "30000" {
		t.Errorf("trailers: %v", resp.Trailer)
	}
}

// The first batch is answered while the client still sends.
func TestStreamIsAnsweredWhileItComes(t *testing.T) {
	r := apitest.New(t)
	conn := r.Dial()
	io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
	if err := apitest.Numbered(apitest.Chunked(conn), 0, 20_000); err != nil { // 1.3 MB: more than a batch
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := apitest.LineCount(t, io.LimitReader(resp.Body, 66*15_000), 0); got != 15_000 {
		t.Errorf("%d lines before the end was sent, want 15000", got)
	}
	if err := apitest.Numbered(apitest.Chunked(conn), 20_000, 1); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "0\r\n\r\n")
	if got := apitest.LineCount(t, resp.Body, 15_000); got != 5001 {
		t.Errorf("%d lines at the end, want 5001", got)
	}
}

func TestStreamInHTTP2(t *testing.T) {
	r := apitest.New(t)
	ts := httptest.NewUnstartedServer(r.API)
	ts.EnableHTTP2 = true
	ts.StartTLS()
	defer ts.Close()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(apitest.Numbered(pw, 0, 40_000)) }()
	resp, err := ts.Client().Post(ts.URL+"/api/v1/filter?filter_typeid=1", apitest.TextType, pr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := apitest.LineCount(t, resp.Body, 0); got != 40_000 || resp.ProtoMajor != 2 {
		t.Errorf("%d new through %s, want 40000 through HTTP/2", got, resp.Proto)
	}
	if got := resp.Trailer.Get("Urifilter-Total"); got != "40000" {
		t.Errorf("trailer: got %q", got)
	}
}

// HTTP/1.0 has no chunks that would show a cut, so its answer waits for the end.
func TestStreamInHTTP10(t *testing.T) {
	r := apitest.New(t)
	var body bytes.Buffer
	apitest.Numbered(&body, 0, 60_000)
	send := func(text string) (*http.Response, error) {
		conn := r.Dial()
		fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", strings.Replace(apitest.StreamHead, "/1.1", "/1.0", 1), len(text), text)
		return http.ReadResponse(bufio.NewReader(conn), nil)
	}
	resp, err := send(body.String())
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(body.Len()) || resp.Header.Get("Urifilter-Total") != "60000" {
		t.Errorf("got length %d, total %q; want %d, 60000", resp.ContentLength, resp.Header.Get("Urifilter-Total"), body.Len())
	}
	if got := apitest.LineCount(t, resp.Body, 0); got != 60_000 {
		t.Errorf("%d new, want 60000", got)
	}
	if resp, err := send(body.String() + strings.Repeat("x", 70_000) + "\n"); err == nil {
		t.Errorf("a stream that broke in its middle was answered %s", resp.Status)
	}
}
