package streams_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// cutAfter posts a stream whose answer must be cut, and returns what came before.
func cutAfter(r *apitest.Rig, send func(io.Writer) error) int {
	r.T.Helper()
	conn := r.Dial()
	defer conn.Close()
	go func() { // the server may close before everything is sent
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if send(apitest.Chunked(conn)) == nil {
			io.WriteString(conn, "0\r\n\r\n")
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	n := 0
	for in := bufio.NewReader(resp.Body); ; n++ {
		_, err := in.ReadSlice('\n')
		if err == io.EOF {
			r.T.Error("the answer ended as if it were whole")
		}
		if err != nil {
			return n
		}
	}
}

func TestStreamErrorInTheMiddleCuts(t *testing.T) {
	r := apitest.New(t)
	got := cutAfter(r, func(w io.Writer) error {
		if err := apitest.Numbered(w, 0, 40_000); err != nil {
			return err
		}
		_, err := io.WriteString(w, strings.Repeat("x", 70_000)+"\n")
		return err
	})
	if got < 10_000 || got >= 40_000 {
		t.Errorf("%d lines were answered before the cut, want those of the batches before", got)
	}
	f, _ := r.Engine.Lookup("uri")
	if n := int(f.Stats().Items); n < got-got/100 || n > got+got/100 {
		t.Errorf("about %d items are remembered, %d were answered", n, got)
	}
	r.Eventually("cut logged", func() bool { return strings.Contains(r.Log.String(), "level=WARN msg=\"answer to a stream cut off\"") })
	r.Eventually("cut counted", func() bool {
		return strings.Contains(r.Scrape(), `urifilter_requests_total{code="599",path="/api/v1/filter"} 1`)
	})
}

// Many short lines make several batches of one read; an error after the first also cuts.
func TestStreamErrorInTheSecondBatchOfOneRead(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Limits.Items, o.Limits.ItemBytes = 10, 20 })
	if got := cutAfter(r, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("same\n", 10)+strings.Repeat("x", 21)+"\n")
		return err
	}); got != 1 {
		t.Errorf("%d lines before the cut, want 1", got)
	}
	apitest.WantBody(t, r.Post("/api/v1/filter?filter_typeid=1", strings.Repeat("more\n", 35), "Content-Type", apitest.TextType), "more\n")
}

func TestStreamWhoseStoreFailsCuts(t *testing.T) {
	r := apitest.New(t)
	r.Store.After.Store(2)
	r.Store.Fail(fmt.Errorf("fsync journal: %w", engine.ErrFailed))
	got := cutAfter(r, func(w io.Writer) error { return apitest.Numbered(w, 0, 100_000) })
	if got < 30_000 || got > 34_000 {
		t.Errorf("%d lines before the cut, want those of two batches", got)
	}
	r.Eventually("failure logged", func() bool { return strings.Contains(r.Log.String(), "level=ERROR msg=\"answer to a stream cut off\"") })
}

func TestStreamWhoseFilterIsDroppedCuts(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := apitest.New(t)
		var batches atomic.Int32
		r.Store.BeforeEachBatch(func() {
			if batches.Add(1) != 2 {
				return
			}
			if a := r.Do("DELETE", "/api/v1/filters/uri?confirm=uri", ""); a.Status != 204 {
				t.Errorf("DELETE: %d", a.Status)
			}
			if again {
				r.Do("PUT", "/api/v1/filters/uri", `{"id":1}`, "Content-Type", apitest.JSONType)
			}
		})
		if got := cutAfter(r, func(w io.Writer) error { return apitest.Numbered(w, 0, 100_000) }); got < 30_000 || got > 34_000 {
			t.Errorf("made again %v: %d lines before the cut, want those of two batches", again, got)
		}
	}
}

func TestFilterDroppedDuringItsFirstBatch(t *testing.T) {
	r := apitest.New(t)
	var once atomic.Bool
	r.Store.BeforeEachBatch(func() {
		if once.CompareAndSwap(false, true) {
			r.Do("DELETE", "/api/v1/filters/uri?confirm=uri", "")
			r.Store.Fail(errors.New("the set is gone"))
		}
	})
	for _, a := range []apitest.Answer{r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`)} {
		if p := a.Problem(t); p.ErrorCode != problem.UnknownFilter {
			t.Errorf("got %d %s, want unknown_filter", a.Status, p.ErrorCode)
		}
	}
}

func TestStreamWhoseClientVanishes(t *testing.T) {
	vanishes := func(r *apitest.Rig, conn net.Conn, leave func() error) {
		r.T.Helper()
		// With the second batch the first one is judged: from then on an error cuts the answer.
		var batches atomic.Int32
		second := make(chan struct{})
		r.Store.BeforeEachBatch(func() {
			if batches.Add(1) == 2 {
				close(second)
			}
		})
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if err := apitest.Numbered(apitest.Chunked(conn), 0, 40_000); err != nil {
			r.T.Fatal(err)
		}
		<-second
		if err := leave(); err != nil {
			r.T.Fatal(err)
		}
		r.AwaitNothingHeld()
		r.Eventually("request counted", func() bool {
			return strings.Contains(r.Scrape(), `code="599",path="/api/v1/filter"} 1`) || strings.Contains(r.Scrape(), `code="499",path="/api/v1/filter"} 1`)
		})
		if log := r.Log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
			r.T.Errorf("a client that leaves is no news:\n%s", log)
		}
	}
	t.Run("while it sends", func(t *testing.T) {
		r := apitest.New(t)
		conn := r.Dial()
		vanishes(r, conn, func() error { return errors.Join(conn.SetLinger(0), conn.Close()) })
	})
	t.Run("half", func(t *testing.T) { // the answer so far waits for it for a while
		synctest.Test(t, func(t *testing.T) {
			r := apitest.Piped(t)
			conn := r.DialAny()
			vanishes(r, conn, conn.(apitest.HalfCloser).CloseWrite)
		})
	})
}

// A client that has sent everything must read its answer, or is cut off.
func TestStreamWhoseAnswerIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := apitest.Piped(t, func(o *api.Options) { o.Limits.BodyTimeout = time.Second })
		conn := r.DialAny()
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if err := apitest.Numbered(apitest.Chunked(conn), 0, 60_000); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "0\r\n\r\n")
		r.Eventually("cut off", func() bool {
			return strings.Contains(r.Scrape(), `urifilter_requests_total{code="499",path="/api/v1/filter"} 1`)
		})
	})
}

// With no room on disk, a client that reads as it sends is served all the same ...
func TestStreamPastTheSpoolLimit(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.SpoolBytes = 1 })
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(apitest.Numbered(pw, 0, 60_000)) }()
	resp, err := http.Post(r.HTTP.URL+"/api/v1/filter?filter_typeid=1", apitest.TextType, pr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := apitest.LineCount(t, resp.Body, 0); got != 60_000 {
		t.Errorf("%d new, want 60000", got)
	}
}

// ... and one that does not is cut off.
func TestStreamPastTheSpoolLimitNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := apitest.Piped(t, func(o *api.Options) { o.SpoolBytes, o.Limits.BodyTimeout = 1, time.Second })
		conn := r.DialAny()
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		apitest.Numbered(apitest.Chunked(conn), 0, 1_000_000)
		r.Eventually("cut off", func() bool {
			return strings.Contains(r.Scrape(), `urifilter_requests_total{code="499",path="/api/v1/filter"} 1`)
		})
	})
}

// A place for the spool that cannot be written cuts the answer, not the daemon.
func TestStreamWithoutTemporaryDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := apitest.Piped(t, func(o *api.Options) { o.TempDir, o.Limits.BodyTimeout = "/nonexistent", time.Second })
		conn := r.DialAny()
		io.WriteString(conn, apitest.StreamHead+"Transfer-Encoding: chunked\r\n\r\n")
		apitest.Numbered(apitest.Chunked(conn), 0, 300_000)
		r.Eventually("cut off", func() bool {
			return strings.Contains(r.Scrape(), `urifilter_requests_total{code="599",path="/api/v1/filter"} 1`)
		})
		r.Eventually("logged", func() bool { return strings.Contains(r.Log.String(), "/nonexistent") })
	})
}
