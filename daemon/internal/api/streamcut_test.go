package api

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

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/problem"
)

// cutAfter posts a stream whose answer must be cut, and returns what came before.
func cutAfter(r *rig, send func(io.Writer) error) int {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	go func() { // the server may close before all is sent
		io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if send(chunker{conn}) == nil {
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
			r.t.Error("the answer ended as if it were whole")
		}
		if err != nil {
			return n
		}
	}
}

func TestStreamErrorInTheMiddleCuts(t *testing.T) {
	r := newRig(t)
	got := cutAfter(r, func(w io.Writer) error {
		if err := numbered(w, 0, 40_000); err != nil {
			return err
		}
		_, err := io.WriteString(w, strings.Repeat("x", 70_000)+"\n")
		return err
	})
	if got < 10_000 || got >= 40_000 {
		t.Errorf("%d lines were answered before the cut, want those of the batches before", got)
	}
	f, _ := r.api.engine.Lookup("uri")
	if n := int(f.Stats().Items); n < got-got/100 || n > got+got/100 {
		t.Errorf("about %d items are remembered, %d were answered", n, got)
	}
	r.eventually("cut logged", func() bool { return strings.Contains(r.log.String(), "level=WARN msg=\"answer to a stream cut off\"") })
	r.eventually("cut counted", func() bool {
		return strings.Contains(r.scrape(), `urifilter_requests_total{code="599",path="/api/v1/filter"} 1`)
	})
}

// Many short lines make several batches of one read; an error behind the first cuts too.
func TestStreamErrorInTheSecondBatchOfOneRead(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Items, o.Limits.ItemBytes = 10, 20 })
	if got := cutAfter(r, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("same\n", 10)+strings.Repeat("x", 21)+"\n")
		return err
	}); got != 1 {
		t.Errorf("%d lines before the cut, want 1", got)
	}
	wantBody(t, r.post("/api/v1/filter?filter_typeid=1", strings.Repeat("more\n", 35), "Content-Type", textType), "more\n")
}

func TestStreamWhoseStoreFailsCuts(t *testing.T) {
	r := newRig(t)
	r.store.after.Store(2)
	r.store.fail(fmt.Errorf("fsync journal: %w", engine.ErrFailed))
	got := cutAfter(r, func(w io.Writer) error { return numbered(w, 0, 100_000) })
	if got < 30_000 || got > 34_000 {
		t.Errorf("%d lines before the cut, want those of two batches", got)
	}
	r.eventually("failure logged", func() bool { return strings.Contains(r.log.String(), "level=ERROR msg=\"answer to a stream cut off\"") })
}

func TestStreamWhoseFilterIsDroppedCuts(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t)
		var batches atomic.Int32
		r.store.beforeEachBatch(func() {
			if batches.Add(1) != 2 {
				return
			}
			if a := r.do("DELETE", "/api/v1/filters/uri?confirm=uri", ""); a.status != 204 {
				t.Errorf("DELETE: %d", a.status)
			}
			if again {
				r.do("PUT", "/api/v1/filters/uri", `{"id":1}`, "Content-Type", jsonType)
			}
		})
		if got := cutAfter(r, func(w io.Writer) error { return numbered(w, 0, 100_000) }); got < 30_000 || got > 34_000 {
			t.Errorf("made again %v: %d lines before the cut, want those of two batches", again, got)
		}
	}
}

func TestFilterDroppedDuringItsFirstBatch(t *testing.T) {
	r := newRig(t)
	var once atomic.Bool
	r.store.beforeEachBatch(func() {
		if once.CompareAndSwap(false, true) {
			r.do("DELETE", "/api/v1/filters/uri?confirm=uri", "")
			r.store.fail(errors.New("the set is gone"))
		}
	})
	for _, a := range []answer{r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`)} {
		if p := a.problem(t); p.ErrorCode != problem.UnknownFilter {
			t.Errorf("got %d %s, want unknown_filter", a.status, p.ErrorCode)
		}
	}
}

func TestStreamWhoseClientVanishes(t *testing.T) {
	vanishes := func(r *rig, conn net.Conn, leave func() error) {
		r.t.Helper()
		io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if err := numbered(chunker{conn}, 0, 100_000); err != nil {
			r.t.Fatal(err)
		}
		if err := leave(); err != nil {
			r.t.Fatal(err)
		}
		r.eventually("request over", func() bool { return r.api.held.Used() == 0 })
		r.eventually("request counted", func() bool {
			return strings.Contains(r.scrape(), `code="599",path="/api/v1/filter"} 1`) || strings.Contains(r.scrape(), `code="499",path="/api/v1/filter"} 1`)
		})
		if log := r.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
			r.t.Errorf("a client that leaves is no news:\n%s", log)
		}
	}
	t.Run("while it sends", func(t *testing.T) {
		r := newRig(t)
		conn := r.dial()
		vanishes(r, conn, func() error { return errors.Join(conn.SetLinger(0), conn.Close()) })
	})
	t.Run("half", func(t *testing.T) { // what was answered until then waits for it for a while
		synctest.Test(t, func(t *testing.T) {
			r := newPipedRig(t)
			conn := r.dialAny()
			vanishes(r, conn, conn.(halfCloser).CloseWrite)
		})
	})
}

// A client that has sent all must read its answer, or is cut off.
func TestStreamWhoseAnswerIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipedRig(t, func(o *Options) { o.Limits.BodyTimeout = time.Second })
		conn := r.dialAny()
		io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		if err := numbered(chunker{conn}, 0, 300_000); err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "0\r\n\r\n")
		r.eventually("cut off", func() bool {
			return strings.Contains(r.scrape(), `urifilter_requests_total{code="499",path="/api/v1/filter"} 1`)
		})
	})
}

// With no room on disk, a client that reads as it sends is served all the same ...
func TestStreamPastTheSpoolLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.SpoolBytes = 1 })
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(numbered(pw, 0, 200_000)) }()
	resp, err := http.Post(r.http.URL+"/api/v1/filter?filter_typeid=1", textType, pr)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := lineCount(t, resp.Body, 0); got != 200_000 {
		t.Errorf("%d new, want 200000", got)
	}
}

// ... and one that does not is cut off.
func TestStreamPastTheSpoolLimitNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipedRig(t, func(o *Options) { o.Limits.SpoolBytes, o.Limits.BodyTimeout = 1, time.Second })
		conn := r.dialAny()
		io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		numbered(chunker{conn}, 0, 1_000_000)
		r.eventually("cut off", func() bool {
			return strings.Contains(r.scrape(), `urifilter_requests_total{code="499",path="/api/v1/filter"} 1`)
		})
	})
}

// A place for the spool that cannot be written cuts the answer, not the daemon.
func TestStreamWithoutTemporaryDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPipedRig(t, func(o *Options) { o.TempDir, o.Limits.BodyTimeout = "/nonexistent", time.Second })
		conn := r.dialAny()
		io.WriteString(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
		numbered(chunker{conn}, 0, 300_000)
		r.eventually("cut off", func() bool {
			return strings.Contains(r.scrape(), `urifilter_requests_total{code="599",path="/api/v1/filter"} 1`)
		})
		r.eventually("logged", func() bool { return strings.Contains(r.log.String(), "/nonexistent") })
	})
}
