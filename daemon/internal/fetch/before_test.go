package fetch

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Before is called before each redirect is followed, and can end the walk.
func TestBeforeARedirect(t *testing.T) {
	asked := 0
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	})
	f := fetcher(t, Options{})
	forbidden := errors.New("forbidden")
	var told []string
	_, _, e := get(t, f, Request{URI: s.URL + "/", Before: func(_ context.Context, uri string) error {
		told = append(told, strings.TrimPrefix(uri, s.URL))
		if len(told) == 3 {
			return forbidden
		}
		return nil
	}})
	if e == nil || !errors.Is(e, forbidden) || e.URI != s.URL+"/xxx" || strings.Join(told, " ") != "/x /xx /xxx" || asked != 3 {
		t.Errorf("%v, told of %q, %d requests", e, told, asked)
	}
}

// If Before waits longer than the whole fetch may take, the error says that, and not that it was canceled.
func TestBeforeARedirectTakesTooLong(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/next", http.StatusFound) })
	f := fetcher(t, Options{})
	var e *Error
	called := false
	for limit := time.Second; !called && limit < time.Minute; limit *= 2 { // a busy machine may need longer to get there
		_, _, e = get(t, f, Request{URI: s.URL + "/", Whole: limit, Before: func(ctx context.Context, _ string) error {
			called = true
			<-ctx.Done()
			return ctx.Err()
		}})
	}
	if e == nil || e.Reason != Timeout || e.URI != s.URL+"/next" {
		t.Errorf("%v", e)
	}
}

// If a server closes a kept connection without an answer, net/http sends the request once more:
// Again is called before that, and can end the walk.
func TestBeforeTheSameAgain(t *testing.T) {
	var asked, may atomic.Int64
	var first atomic.Value // the client's address in the first request
	var anew atomic.Bool   // the second request came over another connection
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch {
		case r.URL.Path == "/first":
			first.Store(r.RemoteAddr)
		case n == 2 && r.RemoteAddr != first.Load():
			anew.Store(true)
		case n == 2:
			panic(http.ErrAbortHandler)
		case may.Load() == 0:
			t.Error("the request came again before its time")
		}
	})
	f := fetcher(t, Options{})
	forbidden := errors.New("forbidden")
	for _, answer := range []error{nil, forbidden} {
		var told []string
		var e *Error
		// On a busy machine net/http may drop a connection instead of keeping it: it waits no more than
		// 50 ms for the goroutine that wrote the request.
		for range 20 {
			asked.Store(0)
			may.Store(0)
			anew.Store(false)
			told = nil
			if _, _, e := get(t, f, Request{URI: s.URL + "/first"}); e != nil { // leaves a connection
				t.Fatal(e)
			}
			_, _, e = get(t, f, Request{URI: s.URL + "/broken", Again: func(_ context.Context, uri string) error {
				told = append(told, strings.TrimPrefix(uri, s.URL))
				may.Add(1)
				return answer
			}})
			if !anew.Load() {
				break
			}
		}
		want := int64(3)
		if answer != nil {
			want = 2
		}
		if strings.Join(told, " ") != "/broken" || asked.Load() != want || answer == nil && e != nil || answer != nil && !errors.Is(e, forbidden) {
			t.Errorf("Again says %v: %v, told of %q, %d requests, want %d", answer, e, told, asked.Load(), want)
		}
	}
}

// A body may be cut at the limit, whether its length is announced or not, even if it never ends.
func TestTruncate(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/announced":
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(make([]byte, 1_000_000))
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 10_000)); err != nil {
					return
				}
			}
		default:
			_, _ = w.Write(make([]byte, 5))
		}
	})
	f := fetcher(t, Options{})
	for path, want := range map[string]int{"/announced": 1000, "/endless": 1000, "/short": 5} {
		_, text, e := get(t, f, Request{URI: s.URL + path, BodyLimit: 1000, Truncate: true})
		if e != nil || len(text) != want {
			t.Errorf("%s: %d bytes, %v, want %d", path, len(text), e, want)
		}
	}
}
