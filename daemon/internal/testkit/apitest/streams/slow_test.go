package streams_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// A client that sends a byte now and then is not idle, but holds memory all the same.
func TestDribblingClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = timeout })
		conn := r.DialAny()
		start := time.Now()
		io.WriteString(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for range 100 {
				time.Sleep(time.Second)
				if _, err := io.WriteString(conn, " "); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("got %d, want 408", resp.StatusCode)
		}
		defer func() { <-gone }()
		if took := time.Since(start); took < timeout || took > timeout+2*time.Second {
			t.Errorf("answered after %s, want it after %s", took, timeout)
		}
	})
}

// Bytes that came in time do not make up for missing ones.
func TestDribblingAfterAQuickStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = time.Second })
		conn := r.DialAny()
		const size = 1 << 20
		fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(" ", size/2))
		ended := make(chan struct{})
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					if _, err := io.WriteString(conn, " "); err != nil {
						return
					}
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		close(ended)
		<-dribbled
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("got %d, want 408", resp.StatusCode)
		}
	})
}

// A deadline that was set for one request must not end the next on its connection.
func TestConnectionLivesOnAfterBodyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = timeout })
		conn := r.DialAny()
		in := bufio.NewReader(conn)
		for i := range 2 {
			for kind, query := range map[string]string{"application/json": "", "text/plain": "?filter=1"} {
				body := fmt.Sprintf(`{"filter_typeid":1,"uri_list":[%d]}`, i)
				fmt.Fprintf(conn, "POST /api/v1/filter%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", query, kind, len(body), body)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("request %d, %s: %v", i, kind, err)
				}
				io.Copy(io.Discard, resp.Body)
				if resp.StatusCode != 200 {
					t.Fatalf("request %d, %s: %d", i, kind, resp.StatusCode)
				}
				time.Sleep(timeout + timeout/4)
			}
		}
	})
}

// The deadline must not end a request whose body has come but whose store is slow.
func TestSlowStoreIsNotASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = timeout })
		r.Store.BeforeEachBatch(func() { time.Sleep(timeout + timeout/4) })
		apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`), `{"uri_list":["a"],"total":1,"duplicates":0}`+"\n")
		apitest.WantBody(t, r.Post("/api/v1/filter?filter_typeid=1", "b\n", "Content-Type", apitest.TextType), "b\n")
		if log := r.Log.String(); strings.Contains(log, "status=499") {
			t.Errorf("taken for gone:\n%s", log)
		}
	})
}

// The deadline of one answer must not hold back "100 Continue" of the next request.
func TestContinueAfterALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = timeout })
		conn := r.DialAny()
		in := bufio.NewReader(conn)
		const body = `{"filter_typeid":1,"uri_list":["a"]}`
		for range 2 {
			fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusContinue {
				t.Fatalf("got %v, %v; want 100", resp, err)
			}
			io.WriteString(conn, body)
			if resp, err = http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
				t.Fatalf("got %v, %v; want 200", resp, err)
			}
			io.Copy(io.Discard, resp.Body)
			time.Sleep(timeout + timeout/4)
		}
	})
}

// What counts is how long a client does nothing, not how long it takes.
func TestSteadyClientMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = timeout })
		conn := r.DialAny()
		start := time.Now()
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		for i := range 15 { // 4 MB
			if err := apitest.Numbered(apitest.Chunked(conn), i*4000, 4000); err != nil {
				t.Fatal(err)
			}
			time.Sleep(timeout / 2)
		}
		io.WriteString(conn, "0\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReaderSize(slowReader{conn}, 64<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := apitest.LineCount(t, resp.Body, 0); got != 60_000 {
			t.Errorf("%d new, want 60000", got)
		}
		if took := time.Since(start); took < 10*timeout {
			t.Errorf("it took %s: too short to show anything", took)
		}
	})
}

// slowReader reads about 200 KB/s: an answer takes it longer than the timeout, a piece does not.
type slowReader struct{ io.Reader }

func (r slowReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	time.Sleep(time.Duration(n) * 5 * time.Microsecond)
	return n, err
}
