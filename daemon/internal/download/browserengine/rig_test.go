//go:build linux

package browserengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// shared is the engine of all tests that break nothing, so that they share one browser.
var shared struct {
	sync.Once
	engine *Engine
	dir    string
	err    error
}

func TestMain(m *testing.M) {
	if chromium.Asked(os.Args[1:]) {
		os.Exit(chromium.Main(os.Args[1:]))
	}
	code := m.Run()
	if shared.engine != nil {
		if err := shared.engine.Close(); err != nil {
			fmt.Println(err)
			code = 1
		}
		if left, err := os.ReadDir(shared.dir); err != nil || len(left) > 0 {
			fmt.Println("left behind:", left, err)
			code = 1
		}
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// newFetching makes the fetching engine; of this machine's addresses it may call only 127.0.0.1.
func newFetching(t testing.TB) *httpengine.Engine {
	t.Helper()
	own := guard.New(guard.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	return httpengine.New(fetch.New(fetch.Options{Guard: own}), "tester/1")
}

func needBrowser(t testing.TB) {
	t.Helper()
	if _, err := chromium.Find(""); err != nil {
		t.Skip(err) // this machine lacks a tool
	}
}

func sharedEngine(t testing.TB) *Engine {
	t.Helper()
	needBrowser(t)
	shared.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "browserengine-test-"); shared.err == nil {
			shared.dir, shared.err = relative(shared.dir) // as with serve --data-dir ./data
		}
		if shared.err == nil {
			shared.engine = New(Options{HTTP: newFetching(t), Dir: shared.dir, Agent: "tester/1", Pages: 1, Idle: time.Hour})
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.engine
}

func relative(dir string) (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Rel(at, dir)
}

// ownEngine makes an engine for a test that breaks browsers.
func ownEngine(t testing.TB, change ...func(*Options)) *Engine {
	t.Helper()
	needBrowser(t)
	dir := t.TempDir()
	o := Options{HTTP: newFetching(t), Dir: dir, Agent: "tester/1", Pages: 1}
	for _, f := range change {
		f(&o)
	}
	e := New(o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return e
}

// site is a server that records its requests.
type site struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	asked   []string
	headers map[string]http.Header // of the last request, by path
	turns   []string
	firsts  int
}

// newSite serves pages by their path; others are not found.
func newSite(t testing.TB, pages map[string]string, more ...func(w http.ResponseWriter, r *http.Request) bool) *site {
	t.Helper()
	s := &site{t: t, headers: map[string]http.Header{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
		s.headers[r.URL.Path] = r.Header.Clone()
		s.mu.Unlock()
		for _, f := range more {
			if f(w, r) {
				return
			}
		}
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		kind := "text/html; charset=utf-8"
		if strings.HasSuffix(r.URL.Path, ".js") {
			kind = "text/javascript"
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) was(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if a == what {
			n++
		}
	}
	return n
}

func (s *site) header(path string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[path]
}

// work makes an attempt at a page.
func (s *site) work(path string, change ...func(*download.Setting)) worker.Work {
	setting := download.Setting{Timeout: 2 * time.Minute, MaxBytes: 8 << 20, Engine: download.EngineBrowser, Concurrency: 4}
	for _, f := range change {
		f(&setting)
	}
	return worker.Work{
		Task: download.Task{ID: "0123", URI: s.URL + path, Attempts: 1},
		Job:  download.Job{ID: 1, Name: "test", Setting: setting},
		Met:  func(string, string) {},
		Turn: func(_ context.Context, uri string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.turns = append(s.turns, strings.TrimPrefix(uri, s.URL))
			return nil
		},
		First: func(context.Context) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.firsts++
			return nil
		},
	}
}

// got is a page with its text.
type got struct {
	worker.Page
	text string
}

func attemptAt(t testing.TB, e *Engine, w worker.Work) (got, *worker.Failure) {
	t.Helper()
	page, err := e.Download(t.Context(), w)
	if err != nil {
		return got{}, worker.FailureOf(err)
	}
	if page.Body == nil {
		return got{Page: page}, nil
	}
	text, err := io.ReadAll(page.Body)
	if err = errors.Join(err, page.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return got{page, string(text)}, nil
}

func good(t testing.TB, e *Engine, w worker.Work) got {
	t.Helper()
	page, failure := attemptAt(t, e, w)
	if failure != nil {
		t.Fatalf("%s: failed: %s", w.Task.URI, failure.Reason)
	}
	return page
}

func bad(t testing.TB, e *Engine, w worker.Work) *worker.Failure {
	t.Helper()
	page, failure := attemptAt(t, e, w)
	if failure == nil {
		t.Fatalf("%s: got %d bytes: %.1000s", w.Task.URI, len(page.text), page.text)
	}
	return failure
}
