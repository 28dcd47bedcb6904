package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Requests to a host are a delay apart, including robots.txt, redirects and failures, however many threads run.
func TestPolite(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	site := &crawltest.Site{Pages: 100}
	seed := serve(t, site)
	s := setting(seed, 25, 8)
	s.Delay = delay
	began := time.Now()
	run(t, t.TempDir(), s)
	times := site.Times(strings.TrimSuffix(strings.TrimPrefix(seed, "http://"), "/"))
	slices.SortFunc(times, time.Time.Compare)
	for i, at := range times { // a thread may come late to its turn, but not early
		if gap := at.Sub(began); gap < time.Duration(i)*delay {
			t.Errorf("request %d came %s after the beginning, want %s or more", i, gap, time.Duration(i)*delay)
		}
	}
	if len(times) < 26 {
		t.Errorf("%d requests, want 26 or more", len(times))
	}
}

// A page that asks for a later retry is requested again, and not earlier; a permanent error is given up.
func TestRetries(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string][]time.Time{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path] = append(asked[r.URL.Path], time.Now())
		asked["*"] = append(asked["*"], time.Now())
		switch n := len(asked[r.URL.Path]); {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			_, _ = w.Write([]byte(`<!doctype html><a href=/busy>x</a><a href=/broken>x</a><a href=/fine>x</a>`))
		case r.URL.Path == "/busy" && n == 1:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/broken":
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(server.Close)
	dir, s := t.TempDir(), setting(server.URL, 10, 1)
	s.Attempts = 2
	p := run(t, dir, s)
	if p.Stored != 3 || p.Retried != 2 || p.Reasons["http_502"] != 1 {
		t.Errorf("%+v", p)
	}
	if n := len(asked["/broken"]); n != 2 {
		t.Errorf("what is broken was asked for %d times, want 2", n)
	}
	if gap := asked["/broken"][0].Sub(asked["/busy"][0]); gap < 2*time.Second {
		t.Errorf("the host was asked %s after it wanted to be left alone for 2s", gap)
	}
	if order := order(t, dir, server.URL); strings.Join(order, " ") != "/ /fine /busy" {
		t.Errorf("stored %q", order)
	}
	text, err := os.ReadFile(filepath.Join(dir, FailedFile))
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"reason":"http_502","status":502`) || !strings.Contains(string(text), `"attempts":2`) {
		t.Errorf("failed: %s, %v", text, err)
	}
}

// A redirect to another origin of the host: also its robots.txt waits for the host's turn.
func TestRobotsOfRedirectWaits(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	var mu sync.Mutex
	var times []time.Time
	serve := func(lead func(w http.ResponseWriter, r *http.Request)) string {
		return sites(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			times = append(times, time.Now())
			mu.Unlock()
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			lead(w, r)
		})
	}
	to := serve(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("a page")) })
	from := serve(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+to+"/", http.StatusFound)
	})
	s := setting("http://127.0.0.1:"+from+"/", 1, 1)
	s.Scope, s.Delay = "all", delay
	began := time.Now()
	if p := run(t, t.TempDir(), s); p.Stored != 1 || len(times) != 4 {
		t.Fatalf("%d requests, %+v", len(times), p)
	}
	wantTurns(t, times, began, delay)
}

// A robots.txt that redirects, as to https or to www., is a further request each time.
func TestRobotsThatRedirectsWaits(t *testing.T) {
	t.Parallel()
	const delay = time.Second
	var mu sync.Mutex
	var times []time.Time
	leads := map[string]string{"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/rules"} // many, as a crawl takes a while to begin
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		times = append(times, time.Now())
		mu.Unlock()
		if to := leads[r.URL.Path]; to != "" {
			http.Redirect(w, r, to, http.StatusMovedPermanently)
		}
	})
	s := setting("http://127.0.0.1:"+port+"/", 1, 1)
	s.Delay = delay
	began := time.Now()
	if p := run(t, t.TempDir(), s); p.Stored != 1 || len(times) != 6 {
		t.Fatalf("%d requests, %+v", len(times), p)
	}
	wantTurns(t, times, began, delay)
}

// A pause that is asked for behind a redirect is one of the host that asks.
func TestRetryAfterOfRedirect(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]time.Time{}
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		host, port, _ := strings.Cut(r.Host, ":")
		mu.Lock()
		asked[host+r.URL.Path] = time.Now()
		mu.Unlock()
		switch host + r.URL.Path {
		case "a.example/":
			_, _ = w.Write([]byte("<!doctype html><a href=/lead>x</a><a href=/other>x</a><a href=http://b.example:" + port + "/page>x</a>"))
		case "a.example/lead":
			http.Redirect(w, r, "http://b.example:"+port+"/busy", http.StatusFound)
		case "b.example/busy":
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	s := setting("http://a.example:"+port+"/", 10, 1)
	s.Scope, s.Robots = "all", false
	runWith(t, t.TempDir(), s, Options{Fetch: fetch.Options{Resolver: testserver.Names(t, map[string][]string{"a.example.": {"127.0.0.1"}, "b.example.": {"127.0.0.1"}})}})
	busy := asked["b.example/busy"]
	if gap := asked["b.example/page"].Sub(busy); gap < 3*time.Second {
		t.Errorf("the host that asked for a pause of 3s was called %s later", gap)
	}
	if other := asked["a.example/other"]; !other.After(busy) || !other.Before(asked["b.example/page"]) {
		t.Errorf("of a host that asked for nothing, a page was called %s after that", other.Sub(busy))
	}
}

// What keeps a redirect from being followed is named, and is not tried again if that would help nothing.
func TestRedirectToWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "http://127.0.0.1:25/", http.StatusFound)
	})
	s := setting("http://127.0.0.1:"+port+"/", 10, 1)
	s.Scope, s.Attempts = "all", 3
	if p := run(t, t.TempDir(), s); p.Failed != 1 || p.Reasons["refused_port"] != 1 || p.Retried != 0 {
		t.Errorf("%+v", p)
	}
}

// Two crawls that share a filter have no page in common but the seed.
func TestSharedFilter(t *testing.T) {
	t.Parallel()
	seed, daemon := serve(t, &crawltest.Site{Pages: 40}), clienttest.NewServer(t)
	s := setting(seed, 20, 4)
	s.FilterURL, s.FilterType = daemon.URL, "uri"
	first, second := t.TempDir(), t.TempDir()
	if p := run(t, first, s); p.Stored != 20 || p.Elsewhere != 0 || p.FalsePositives != 0 {
		t.Errorf("the first: %+v", p)
	}
	p := run(t, second, s)
	if p.Stored != 1 || p.Elsewhere == 0 {
		t.Errorf("the second: %+v", p)
	}
	if err := errors.Join(crawltest.Check(first, 20), crawltest.Check(second, 1)); err != nil {
		t.Error(err)
	}
	s.FilterType = "nobody"
	if _, err := Begin(t.Context(), t.TempDir(), s, Options{}); err == nil || !strings.Contains(err.Error(), `filter "nobody": unknown`) {
		t.Errorf("an unknown filter: %v", err)
	}
	// A daemon that is gone ends the crawl, which can continue when it is back.
	s.FilterType = "uri_download"
	third := t.TempDir()
	c, err := Begin(t.Context(), third, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	daemon.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		clienttest.Problem(w, http.StatusForbidden, "forbidden", "not now", nil)
		return true
	})
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "filter: ") {
		t.Errorf("without its daemon: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	// So it does where a redirect leads to what the filter is asked about.
	leads := sites(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "/next", http.StatusFound)
	})
	daemon.Intercept(nil)
	s.Seeds = []string{"http://127.0.0.1:" + leads + "/"}
	if c, err = Begin(t.Context(), t.TempDir(), s, Options{}); err != nil {
		t.Fatal(err)
	}
	daemon.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		clienttest.Problem(w, http.StatusForbidden, "forbidden", "not now", nil)
		return true
	})
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "filter: ") || c.Progress().Failed != 0 {
		t.Errorf("a redirect without its daemon: %v, %+v", err, c.Progress())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	daemon.Intercept(nil)
	if c, err = Resume(t.Context(), third, func(*Setting) error { return nil }, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close(), crawltest.Check(third, 20)); err != nil {
		t.Error(err)
	}
}

func TestSettingFaults(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Setting){
		"no seed":          func(s *Setting) { s.Seeds = nil },
		"--threads 0":      func(s *Setting) { s.Threads = 0 },
		"--scope \"x\"":    func(s *Setting) { s.Scope = "x" },
		"--contact":        func(s *Setting) { s.Contact = "me (at home)" },
		"--depth -2":       func(s *Setting) { s.MaxDepth = -2 },
		"--attempts 0":     func(s *Setting) { s.Attempts = 0 },
		"seed \"ftp://x\"": func(s *Setting) { s.Seeds = []string{"ftp://x"} },
	} {
		s := Default()
		s.Seeds = []string{"http://example.com/"}
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, seed, uri string
		want            bool
	}{
		{"host", "http://a.example/x/", "https://a.example/y", true},
		{"host", "http://a.example/", "http://b.a.example/", false},
		{"host", "http://a.example:81/", "http://a.example/", false},
		{"host", "http://[::1]/", "https://[::1]/x", true},
		{"domain", "http://www.example.co.uk/", "http://news.example.co.uk/", true},
		{"domain", "http://www.example.co.uk/", "http://other.co.uk/", false},
		{"domain", "http://127.0.0.1/", "http://127.0.0.2/", false},
		{"prefix", "http://a.example/x/index.html?a=/b", "http://a.example/x/y", true},
		{"prefix", "http://a.example/x/index.html", "http://a.example/xy", false},
		{"all", "http://a.example/", "http://b.example/", true},
	} {
		if got := newScope(c.kind, parsed(t, c.seed)).has(parsed(t, c.uri)[0]); got != c.want {
			t.Errorf("%s of %s has %s: %v", c.kind, c.seed, c.uri, got)
		}
	}
	s := Default()
	for path, want := range map[string]string{
		"/a/b/c": "", "/a/a/a": "", "/x/a/a/a/a": "repeated", strings.Repeat("/y", 33): "segments", "/" + strings.Repeat("z", 2100): "long",
	} {
		if got := s.trap(parsed(t, "http://a.example"+path)[0]); got != want {
			t.Errorf("%.50s: %q, want %q", path, got, want)
		}
	}
}

func parsed(t *testing.T, text string) []*uri.URI {
	t.Helper()
	u, err := uri.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return []*uri.URI{u}
}

// wantTurns wants a delay before each request but the first: one may come late to its turn, but not early.
func wantTurns(t *testing.T, times []time.Time, began time.Time, delay time.Duration) {
	t.Helper()
	for i, at := range times {
		if gap := at.Sub(began); gap < time.Duration(i)*delay {
			t.Errorf("request %d came %s after the beginning, want %s or more", i, gap, time.Duration(i)*delay)
		}
	}
}

// watched is a context that says when somebody waits for its end.
type watched struct {
	context.Context
	waits chan<- struct{}
}

func (w watched) Done() <-chan struct{} {
	select {
	case w.waits <- struct{}{}:
	default:
	}
	return w.Context.Done()
}

// Threads that wait for a robots.txt that another one fetches do not call the host together when it comes.
func TestTurnsAfterRobots(t *testing.T) {
	t.Parallel()
	s := setting("http://a.example/", 10, 5)
	s.Delay = time.Hour
	c, err := Begin(t.Context(), t.TempDir(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	comes, asked := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = c.robots.Ask(t.Context(), "http://a.example", "/", func(context.Context, string) (robots.Answer, error) {
			close(asked)
			<-comes
			return robots.Answer{Status: http.StatusNotFound}, nil
		})
	})
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 5)
	for range cap(results) {
		waits := make(chan struct{}, 1)
		all.Go(func() { results <- c.allowed(watched{ctx, waits}, parsed(t, "http://a.example/x")[0]) })
		<-waits
	}
	close(comes)
	if err := <-results; err != nil {
		t.Error(err)
	}
	cancel()
	for range cap(results) - 1 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("another request was sent at once: %v", err)
		}
	}
	all.Wait()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A name with a dot at its end is the same host, whose turns its pages wait for.
func TestNameWithADot(t *testing.T) {
	t.Parallel()
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := strings.Cut(r.Host, ":")
		switch r.URL.Path {
		case "/":
			_, _ = fmt.Fprintf(w, "<!doctype html><a href=/1>x</a><a href=http://a.example.:%s/2>x</a><a href=/lead>x</a>", port)
		case "/lead":
			http.Redirect(w, r, "http://a.example.:"+port+"/3", http.StatusFound)
		}
	})
	s := setting("http://a.example:"+port+"/", 7, 4)
	s.Scope = "domain"
	dir := t.TempDir()
	p := runWith(t, dir, s, Options{Fetch: fetch.Options{Resolver: testserver.Names(t, map[string][]string{"a.example.": {"127.0.0.1"}})}})
	if p.Stored != 4 || len(p.Slowest) != 1 {
		t.Errorf("%+v", p)
	}
	db, err := sqlitefile.Connect(filepath.Join(dir, "crawl.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	hosts := 0
	err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM hosts").Scan(&hosts)
	if err := errors.Join(err, db.Close()); err != nil || hosts != 1 {
		t.Errorf("%d hosts, want 1; %v", hosts, err)
	}
}
