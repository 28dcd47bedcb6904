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

// What Before takes, which waits for the host's turn, is not time of the fetch; its other time is bounded as ever.
func TestWaitingBeforeARedirectIsNoTimeOfTheFetch(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			<-r.Context().Done()
		case "/next", "/to/hangs":
			http.Redirect(w, r, map[string]string{"/next": "/end", "/to/hangs": "/hangs"}[r.URL.Path], http.StatusFound)
		}
	})
	f := fetcher(t, Options{})
	t.Cleanup(s.CloseClientConnections)
	var e *Error
	for limit := 100 * time.Millisecond; limit < time.Minute; limit *= 2 { // a busy machine may need longer for the requests
		if _, _, e = get(t, f, Request{URI: s.URL + "/next", Whole: limit, Before: func(context.Context, string) error {
			time.Sleep(2 * limit)
			return nil
		}}); e == nil {
			break
		}
	}
	if e != nil {
		t.Errorf("waited for twice its time before a redirect: %v", e)
	}
	_, _, e = get(t, f, Request{URI: s.URL + "/to/hangs", Whole: time.Second, Before: func(context.Context, string) error { return nil }})
	if e == nil || e.Reason != Timeout {
		t.Errorf("a host that hangs after a redirect: %v", e)
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
