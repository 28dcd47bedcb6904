package http_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// quiet makes a rig that logs nothing, as a daemon at its usual level.
func quiet(o *api.Options) { o.Logger = slog.New(slog.DiscardHandler) }

const (
	itemText = `"https://www.example.com/a/rather/ordinary/path/of/a/page?n=00000000"`
	answered = 69 * 500
)

// thousand makes a request of 1,000 URLs of 67 bytes, to be numbered by renumber.
func thousand() (request []byte, body int) {
	list := strings.Repeat(","+itemText, 1000)[1:]
	text := `{"filter_typeid":"bench","uri_list":[` + list + `]}`
	request = fmt.Appendf(nil, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(text))
	return append(request, text...), len(text)
}

// renumber takes half of the items from the previous batch, and makes half new.
func renumber(request []byte, body, batch int) {
	at := len(request) - body + len(`{"filter_typeid":"bench","uri_list":[`) + len(itemText) - 1
	for i := range 1000 {
		n := batch*500 + i
		for d := 1; d <= 8; d++ {
			request[at-d] = byte('0' + n%10)
			n /= 10
		}
		at += len(itemText) + 1
	}
}

// roundTrips sends requests one after another over one raw connection.
func roundTrips(b *testing.B, addr string) {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 128<<10)
	request, body := thousand()
	b.ReportAllocs()
	start := time.Now()
	for i := 0; b.Loop(); i++ {
		renumber(request, body, i)
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		size := answerHead(b, in)
		if i > 0 && size < answered {
			b.Fatalf("answer of %d bytes", size)
		}
		if _, err := in.Discard(size); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "req/s")
}

// answerHead reads the head of a 200 and returns its Content-Length.
func answerHead(b *testing.B, in *bufio.Reader) (size int) {
	b.Helper()
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			b.Fatalf("%s", line)
		}
		if len(line) == 2 {
			return size
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, digit := range bytes.TrimSpace(value) {
				size = size*10 + int(digit-'0')
			}
		}
	}
}

func BenchmarkFilter1000(b *testing.B) {
	r := apitest.New(b, quiet)
	r.Put("bench", `{"capacity":50000000}`)
	roundTrips(b, r.HTTP.Listener.Addr().String())
}

// BenchmarkNull1000 is the same exchange with a handler that reads the body and answers
// as many bytes.
func BenchmarkNull1000(b *testing.B) {
	out := bytes.Repeat([]byte("x"), answered+40)
	buf := make([]byte, 128<<10)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := r.Body.Read(buf); err == io.EOF {
				break
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
		w.Write(out)
	}))
	defer ts.Close()
	roundTrips(b, ts.Listener.Addr().String())
}

// A filter call allocates for the request, and nothing for its 1,000 items.
func TestFilterAllocatesNothingPerItem(t *testing.T) {
	most := 25.0
	if apitest.RaceEnabled {
		most = 250 // the race detector makes pools forget
	}
	r := apitest.New(t, quiet)
	r.Put("bench", "")
	request, n := thousand()
	w := &discardWriter{header: http.Header{}}
	allocs := testing.AllocsPerRun(500, func() {
		clear(w.header)
		w.status = 0
		r.API.ServeHTTP(w, &http.Request{Method: "POST", URL: &url.URL{Path: "/api/v1/filter"}, Header: http.Header{},
			ContentLength: int64(n), Body: io.NopCloser(bytes.NewReader(request[len(request)-n:]))})
	})
	if w.status != 200 {
		t.Errorf("answered %d", w.status)
	}
	if allocs > most {
		t.Errorf("%v allocations for a request of 1,000 items", allocs)
	}
	t.Logf("%v allocations for a request of 1,000 items, the test's own included", allocs)
}

type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }

// BenchmarkPage is the page of 500 filters, as one of many browsers gets it: the look at all filters is shared; look is
// that look alone.
func BenchmarkPage(b *testing.B) {
	r := apitest.New(b)
	for i := range 498 {
		if a := r.Put(fmt.Sprintf("site_%03d", i), `{"capacity":10000}`); a.Status != 201 {
			b.Fatal(a.Body)
		}
	}
	for range 120 {
		r.API.Status().Take()
	}
	ask := func(b *testing.B) {
		req := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
		req.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		if r.API.ServeHTTP(w, req); w.Code != 200 {
			b.Fatal(w.Body)
		}
		b.ReportMetric(float64(w.Body.Len()), "bytes")
	}
	b.Run("shared", func(b *testing.B) {
		for b.Loop() {
			ask(b)
		}
	})
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			r.API.Status().Forget()
			ask(b)
		}
	})
	b.Run("sample", func(b *testing.B) {
		for b.Loop() {
			r.API.Status().Take()
		}
	})
}
