package httpengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// rig is an engine, and a server that records its requests.
type rig struct {
	*httptest.Server
	engine *Engine
	mu     sync.Mutex
	asked  []string
	turns  int
	met    []string
	wants  []string // of Work.Wants
	// refusal, if not nil, is the error of each turn.
	refusal *worker.Failure
}

func newRig(t *testing.T, serve func(w http.ResponseWriter, r *http.Request)) *rig {
	t.Helper()
	r := &rig{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, q.URL.RequestURI())
		r.mu.Unlock()
		serve(w, q)
	}))
	t.Cleanup(r.Close)
	fetcher := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: true}), SpillDir: t.TempDir(), UserAgent: "tester/1.0 (+http://example.com/)"})
	t.Cleanup(fetcher.Close)
	r.engine = New(fetcher, "tester/1.0 (+http://example.com/)")
	return r
}

// download makes an attempt, and returns the page, its body, and the failure.
func (r *rig) download(t *testing.T, uri string, change ...func(*download.Setting)) (worker.Page, string, *worker.Failure) {
	t.Helper()
	s := download.Setting{Timeout: 5 * time.Minute, MaxBytes: 1 << 20, Robots: true}
	for _, f := range change {
		f(&s)
	}
	page, err := r.engine.Download(t.Context(), r.work(uri, s))
	if err != nil {
		var failure *worker.Failure
		if !errors.As(err, &failure) {
			t.Fatalf("%s: %v is no *worker.Failure", uri, err)
		}
		return page, "", failure
	}
	text, err := io.ReadAll(page.Body)
	if err := errors.Join(err, page.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return page, string(text), nil
}

// work is an attempt whose turns are counted.
func (r *rig) work(uri string, s download.Setting) worker.Work {
	return worker.Work{
		Task: download.Task{URI: uri}, Job: download.Job{Setting: s},
		Met: func(uri, remote string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.met = append(r.met, uri+" "+remote)
		},
		Wants: func(_ context.Context, uri string, delay time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.wants = append(r.wants, uri+" "+delay.String())
		},
		Turn: func(context.Context, string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.turns++
			if r.refusal != nil {
				return r.refusal
			}
			return nil
		},
	}
}

func TestPage(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/robots.txt" {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=GBK")
		w.Header().Set("Set-Cookie", "session=secret")
		_, _ = fmt.Fprintf(w, "%s|%s|%s", q.UserAgent(), q.Header.Get("Cookie"), q.Header.Get("Accept-Language"))
	})
	page, text, failure := r.download(t, r.URL+"/a?b=c", func(s *download.Setting) {
		s.Cookie, s.Headers = "x=y", map[string]string{"Accept-Language": "en"}
	})
	if failure != nil || text != "tester/1.0 (+http://example.com/)|x=y|en" {
		t.Fatalf("%q, %v", text, failure)
	}
	if page.Status != 200 || page.URI != r.URL+"/a?b=c" || page.Encoding != "gbk" || page.Header.Get("Set-Cookie") != "" || page.Header.Get("Content-Type") == "" {
		t.Errorf("%+v", page.Result)
	}
	// The file is fetched once, and the page then waits for a separate turn.
	if _, _, failure := r.download(t, r.URL+"/b"); failure != nil {
		t.Error(failure)
	}
	if got := strings.Join(r.asked, " "); got != "/robots.txt /a?b=c /b" || r.turns != 1 {
		t.Errorf("asked for %s, %d turns", got, r.turns)
	}
	// The worker gets to know the address.
	if want := r.URL + "/b " + strings.TrimPrefix(r.URL, "http://"); len(r.met) != 2 || r.met[1] != want {
		t.Errorf("met %q, want %q as the second", r.met, want)
	}
}

// The Crawl-delay of a host is told to the worker, with each request and when it has ended.
func TestCrawlDelay(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/robots.txt" {
			_, _ = w.Write([]byte("User-agent: *\nCrawl-delay: 30\nDisallow: /no\n"))
		}
	})
	obey := func(s *download.Setting) { s.Robots = true }
	for _, path := range []string{"/a", "/b", "/no"} {
		r.download(t, r.URL+path, obey)
	}
	r.download(t, r.URL+"/c", func(s *download.Setting) { s.Robots = false })
	want := []string{r.URL + "/a 30s", r.URL + "/b 30s", r.URL + "/no 30s"}
	if !slices.Equal(r.wants, want) {
		t.Errorf("told %q, want %q", r.wants, want)
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

// Those that wait for a robots.txt that another one fetches do not call the host together when it comes: each has a turn. Only
// the parts of a page have none.
func TestTurnsAfterRobots(t *testing.T) {
	r := newRig(t, func(http.ResponseWriter, *http.Request) {})
	comes, asked := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = r.engine.robots.Ask(t.Context(), r.URL, "/", func(context.Context, string) (robots.Answer, error) {
			close(asked)
			<-comes
			return robots.Answer{Status: http.StatusNotFound}, nil
		})
	})
	<-asked
	for i := range 5 {
		waits := make(chan struct{}, 1)
		all.Go(func() {
			uri := fmt.Sprintf("%s/%d", r.URL, i)
			answer, err := r.engine.Fetch(watched{t.Context(), waits}, r.work(uri, download.Setting{Timeout: time.Minute, Robots: true}), Request{URI: uri, Part: i >= 3})
			if err == nil {
				err = answer.Body.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
		<-waits
	}
	close(comes)
	all.Wait()
	if r.turns != 3 || len(r.asked) != 5 {
		t.Errorf("%d turns for %d requests, want 3 for 5", r.turns, len(r.asked))
	}
}

func TestRobots(t *testing.T) {
	status := http.StatusOK
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/robots.txt":
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "User-agent: tester\nDisallow: /private\n"+strings.Repeat("# more\n", 200_000))
		case "/lead":
			http.Redirect(w, q, "/private/2", http.StatusFound)
		}
	})
	for path, want := range map[string]string{"/private/1": "forbids it", "/lead": "/private/2: robots.txt of the host forbids it", "/public": ""} {
		_, _, failure := r.download(t, r.URL+path)
		if want == "" != (failure == nil) || failure != nil && (!failure.Permanent || !strings.Contains(failure.Reason, want)) {
			t.Errorf("%s: %+v, want %q", path, failure, want)
		}
	}
	for _, path := range r.asked {
		if strings.HasPrefix(path, "/private") {
			t.Errorf("%s was asked for", path)
		}
	}
	if _, _, failure := r.download(t, r.URL+"/private/1", func(s *download.Setting) { s.Robots = false }); failure != nil {
		t.Errorf("a job that does not ask: %v", failure)
	}
	// A robots.txt that is not available forbids everything for a while.
	status = http.StatusBadGateway
	other := newRig(t, r.Config.Handler.ServeHTTP)
	_, _, failure := other.download(t, other.URL+"/public")
	if failure == nil || failure.Permanent || failure.After <= 0 || failure.Early || !strings.HasPrefix(failure.Reason, "robots_unreachable: ") {
		t.Errorf("without a robots.txt: %+v", failure)
	}
	// As long as that is remembered nothing is requested, and no attempt is counted.
	before := len(other.asked)
	_, _, failure = other.download(t, other.URL+"/public")
	if failure == nil || !failure.Early || failure.After <= 0 || len(other.asked) != before {
		t.Errorf("without a robots.txt, for the second time: %+v, %d requests", failure, len(other.asked)-before)
	}
	// With a redirect to such a host, the first request was made.
	away := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/robots.txt" {
			http.NotFound(w, q)
			return
		}
		http.Redirect(w, q, other.URL+"/public", http.StatusFound)
	})
	_, _, failure = away.download(t, away.URL+"/lead")
	if failure == nil || failure.Permanent || failure.Early || failure.After <= 0 || !strings.HasPrefix(failure.Reason, "robots_unreachable: "+other.URL) {
		t.Errorf("a redirect to a host without a robots.txt: %+v", failure)
	}
}

// The robots.txt of an origin to which a redirect leads is requested in its host's turn, and so is the page.
func TestRobotsOfRedirect(t *testing.T) {
	var other, r *rig
	serve := func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/robots.txt":
			http.NotFound(w, q)
		case q.URL.Path == "/lead":
			http.Redirect(w, q, other.URL+"/page", http.StatusFound)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wants = append(r.wants, fmt.Sprint(q.URL.Path, " ", r.turns))
	}
	r, other = newRig(t, serve), newRig(t, serve)
	if _, _, failure := r.download(t, r.URL+"/lead"); failure != nil {
		t.Fatal(failure)
	}
	r.wants = slices.DeleteFunc(r.wants, func(text string) bool { return strings.HasPrefix(text, "http") }) // of Work.Wants
	if want := []string{"/robots.txt 0", "/lead 1", "/robots.txt 2", "/page 3"}; !slices.Equal(r.wants, want) {
		t.Errorf("requests after so many turns: %q, want %q", r.wants, want)
	}
}

// A robots.txt that redirects is two requests: the second one waits for its turn.
func TestRobotsThatRedirectsHasATurn(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/robots.txt" {
			http.Redirect(w, q, "/rules", http.StatusMovedPermanently)
		}
	})
	if _, _, failure := r.download(t, r.URL+"/page"); failure != nil || r.turns != 2 {
		t.Errorf("%d turns besides the first, want one for the redirect and one for the page; %+v", r.turns, failure)
	}
}

// The server closes the connection on which robots.txt was requested, and has asked for a long pause. The request is
// not repeated, the task is given back until the pause ends, and nothing is remembered against the host.
func TestRobotsWithoutATurn(t *testing.T) {
	var mended atomic.Bool
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/robots.txt" && !mended.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	if _, _, failure := r.download(t, r.URL+"/first", func(s *download.Setting) { s.Robots = false }); failure != nil { // leaves a connection
		t.Fatal(failure)
	}
	r.refusal = &worker.Failure{Reason: "retry_after: a pause", After: time.Hour}
	_, _, failure := r.download(t, r.URL+"/second")
	if failure == nil || !failure.Early || failure.After != time.Hour || failure.Reason != "retry_after: a pause" || r.turns != 1 {
		t.Errorf("%+v after %d turns, want what the turn said, early", failure, r.turns)
	}
	mended.Store(true)
	r.refusal = nil
	if _, _, failure := r.download(t, r.URL+"/third"); failure != nil {
		t.Errorf("after the pause: %v", failure)
	}
	if got := strings.Join(r.asked, " "); got != "/first /robots.txt /robots.txt /third" {
		t.Errorf("asked for %s", got)
	}
}

func TestFailures(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/429":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/large":
			_, _ = w.Write(make([]byte, 2<<20))
		case "/away":
			http.Redirect(w, q, "http://169.254.169.254/latest", http.StatusFound)
		case "/lead":
			http.Redirect(w, q, "http://"+strings.Replace(q.Host, "127.0.0.1", "localhost", 1)+"/429", http.StatusFound)
		case "/gone":
			http.Redirect(w, q, strings.Replace(gone.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		}
	})
	for path, want := range map[string]worker.Failure{
		"/429":   {Reason: "status: ", Status: 429, Crowded: true, After: 7 * time.Second, Host: "127.0.0.1"},
		"/500":   {Reason: "status: ", Status: 500, Crowded: true, Host: "127.0.0.1"},
		"/404":   {Reason: "status: ", Status: 404, Permanent: true, Host: "127.0.0.1"},
		"/lead":  {Reason: "status: ", Status: 429, Crowded: true, After: 7 * time.Second, Host: "localhost"},
		"/gone":  {Reason: "connect: ", Crowded: true, Host: "localhost"},
		"/large": {Reason: "too_large: ", Permanent: true},
		"/away":  {Reason: "refused_address: ", Permanent: true},
	} {
		_, _, got := r.download(t, r.URL+path, func(s *download.Setting) { s.Robots = false })
		if got == nil || !strings.HasPrefix(got.Reason, want.Reason) || got.Status != want.Status || got.Permanent != want.Permanent || got.Crowded != want.Crowded || got.After != want.After || got.Host != want.Host {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for proxy, want := range map[string]string{"ftp://x": "proxy", "http://" + testserver.Free(t): "proxy", "http://127.0.0.1:1": "refused_proxy: "} {
		_, _, got := r.download(t, r.URL+"/", func(s *download.Setting) { s.Robots, s.Proxies = false, []string{proxy} })
		if got == nil || !strings.HasPrefix(got.Reason, want) {
			t.Errorf("%s: %+v", proxy, got)
		}
	}
}

// A page, or a robots.txt, for which there is no space here costs no attempt, and says nothing about its host.
func TestNoSpace(t *testing.T) {
	var long atomic.Pointer[string] // the path of what does not fit into memory
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == *long.Load() {
			_, _ = io.WriteString(w, strings.Repeat("# a page\n", 40_000))
		}
	})
	fetcher := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: true}), SpillDir: filepath.Join(t.TempDir(), "gone")})
	t.Cleanup(fetcher.Close)
	r.engine = New(fetcher, "tester")
	for _, path := range []string{"/robots.txt", "/page"} {
		long.Store(&path)
		if _, _, failure := r.download(t, r.URL+"/page"); failure == nil || !failure.Early || failure.After <= 0 || failure.Permanent || failure.Crowded || !strings.HasPrefix(failure.Reason, "storage: ") {
			t.Errorf("%s: %+v", path, failure)
		}
	}
	fits := "/other"
	long.Store(&fits)
	if _, _, failure := r.download(t, r.URL+"/page"); failure != nil {
		t.Errorf("a page that fits: %+v", failure)
	}
}

// Cookies that a server sets come back in later attempts of the job, in place of the job's own.
func TestCookiesAreKept(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/login" {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "new", Path: "/"})
			http.Redirect(w, q, "/home", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, q.Header.Get("Cookie"))
	})
	kept := func(s *download.Setting) { s.Robots, s.KeepCookies, s.Cookie = false, true, "session=old; lang=en" }
	for _, path := range []string{"/before", "/login", "/after"} {
		want := "lang=en; session=new"
		if path == "/before" {
			want = "session=old; lang=en"
		}
		if _, text, failure := r.download(t, r.URL+path, kept); failure != nil || text != want {
			t.Errorf("%s: %q, %v, want %q", path, text, failure, want)
		}
	}
	dropped := func(s *download.Setting) { s.Robots, s.Cookie = false, "session=old" }
	if _, text, failure := r.download(t, r.URL+"/login", dropped); failure != nil || text != "session=old" {
		t.Errorf("without keep_cookies: %q, %v", text, failure)
	}
}

// The error says what is wrong with the host, not only that its robots.txt is unavailable.
func TestHostThatCannotBeAskedForRobots(t *testing.T) {
	t.Parallel()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secret.Close)
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(broken.Close)
	gone := "http://" + testserver.Free(t)
	public := fetch.New(fetch.Options{SpillDir: t.TempDir()})
	t.Cleanup(public.Close)
	all := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: true}), SpillDir: t.TempDir()})
	t.Cleanup(all.Close)
	for _, c := range []struct {
		fetcher   *fetch.Fetcher
		uri       string
		permanent bool
		says      string
	}{
		{public, "http://169.254.169.254/latest/", true, "refused_address: http://169.254.169.254/robots.txt"},
		{all, secret.URL + "/x", true, "tls_unknown_authority: " + secret.URL + "/robots.txt"},
		{all, broken.URL + "/x", false, "robots_unreachable: " + broken.URL + "/x: robots.txt of the host cannot be fetched, which forbids everything for a while: it was answered with status 503"},
		{all, gone + "/x", false, "robots_unreachable: " + gone + "/x: robots.txt of the host cannot be fetched, which forbids everything for a while: " + gone + "/robots.txt: no connection to the host"},
	} {
		r := &rig{engine: New(c.fetcher, "tester")}
		if _, _, f := r.download(t, c.uri); f == nil || f.Permanent != c.permanent || !strings.HasPrefix(f.Reason, c.says) {
			t.Errorf("%s: %+v, want %q", c.uri, f, c.says)
		}
	}
}
