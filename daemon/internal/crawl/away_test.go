package crawl

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// moody is a site of a page with links to others, whose robots.txt or whole server can be away.
type moody struct {
	*httptest.Server
	pages  int
	robots atomic.Int64 // how many more requests for robots.txt fail
	lost   bool         // they fail by a lost connection, else by status 503
	asked  atomic.Int64 // requests for robots.txt
}

func newMoody(t *testing.T, pages int) *moody {
	t.Helper()
	m := &moody{pages: pages}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/robots.txt":
		m.asked.Add(1)
		if m.robots.Add(-1) < 0 {
			http.NotFound(w, r)
			return
		}
		if m.lost {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/":
		_, _ = fmt.Fprint(w, "<!doctype html>")
		for i := range m.pages - 1 {
			_, _ = fmt.Fprintf(w, "<a href=/%d>x</a>", i)
		}
	default:
		_, _ = fmt.Fprintf(w, "<!doctype html><p>%s", r.URL.Path)
	}
}

// A robots.txt that fails once is tried once more, as a page is; no URI is lost, also not those that were queued.
func TestRobotsThatFails(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		m := newMoody(t, 30)
		m.lost = lost
		m.robots.Store(1)
		dir, s := t.TempDir(), setting(m.URL, 10, 4)
		if p := run(t, dir, s); p.Stored != 10 || p.Failed != 0 {
			t.Errorf("a new crawl: %+v", p)
		}
		m.robots.Store(1)
		c, err := Resume(t.Context(), dir, func(s *Setting) error { s.MaxPages = 100; return nil }, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if p := c.Progress(); p.Stored != 30 || p.Failed != 0 || p.Queued != 0 {
			t.Errorf("it goes on: %+v", p)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A crawl ends without a host whose robots.txt cannot be had, or that has no connection; its URIs stay in the
// queue, and --resume fetches them.
func TestHostThatIsAway(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 4} {
		m := newMoody(t, 5)
		m.robots.Store(1000)
		dir, s := t.TempDir(), setting(m.URL, 10, threads)
		s.Attempts = 1
		if p := run(t, dir, s); p.Stored != 0 || p.Failed != 0 || p.Queued != 1 || p.Away != 1 || p.LastFailure == "" || m.asked.Load() != 2 {
			t.Errorf("without robots.txt: %+v after %d requests for it", p, m.asked.Load())
		}
		// Now the server is away.
		m.robots.Store(0)
		at := m.Listener.Addr().String()
		m.Close()
		if p := resumed(t, dir, false); p.Stored != 0 || p.Failed != 0 || p.Queued != 1 || p.Away != 1 {
			t.Errorf("without a server: %+v", p)
		}
		listener, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatalf("the port was taken meanwhile: %v", err)
		}
		back := &http.Server{Handler: m}
		go func() { _ = back.Serve(listener) }()
		if p := resumed(t, dir, false); p.Stored != 5 || p.Failed != 0 || p.Queued != 0 || p.Away != 0 {
			t.Errorf("with a server: %+v", p)
		}
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A port of a host that does not answer, such as that of https, says nothing about the others.
func TestPortThatIsAway(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 4} {
		dead, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := dead.Addr().String()
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		port := sites(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				_, _ = fmt.Fprintf(w, "<!doctype html><a href=https://%s/x>x</a><a href=/lead>l</a><a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>", at)
			case "/lead":
				http.Redirect(w, r, "https://"+at+"/y", http.StatusFound)
			}
		})
		dir, s := t.TempDir(), setting("http://127.0.0.1:"+port+"/", 10, threads)
		s.Scope, s.Attempts = "domain", 1
		if p := run(t, dir, s); p.Stored != 4 || p.Failed != 1 || p.Reasons["robots_unreachable"] != 1 || p.Queued != 1 || p.Away != 1 {
			t.Errorf("%d threads: %+v", threads, p)
		}
	}
}

// What has failed is fetched once more if that is asked for, and counts as if it had never been tried.
func TestRetryFailed(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			_, _ = w.Write([]byte("<!doctype html><a href=/a>x</a><a href=/b>x</a>"))
		case broken.Load():
			http.NotFound(w, r)
		default:
			_, _ = fmt.Fprintf(w, "<!doctype html><p>%s<a href=/c>x</a>", r.URL.Path)
		}
	}))
	t.Cleanup(server.Close)
	dir, s := t.TempDir(), setting(server.URL, 10, 2)
	if p := run(t, dir, s); p.Stored != 1 || p.Failed != 2 {
		t.Fatalf("%+v", p)
	}
	broken.Store(false)
	if p := resumed(t, dir, false); p.Stored != 1 || p.Failed != 2 {
		t.Errorf("not asked for: %+v", p)
	}
	if p := resumed(t, dir, true); p.Stored != 4 || p.Failed != 0 || p.Queued != 0 || len(p.Reasons) != 0 {
		t.Errorf("retried: %+v", p)
	}
}

// resumed continues a crawl.
func resumed(t *testing.T, dir string, retry bool) Progress {
	t.Helper()
	c, err := Resume(t.Context(), dir, func(*Setting) error { return nil }, Options{RetryFailed: retry})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err != nil {
		t.Error(err)
	}
	p := c.Progress()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return p
}

// What is not to be had now is never final. Each reason that a fetch can fail with has its place here.
func TestNotNowIsNotNever(t *testing.T) {
	t.Parallel()
	const (
		away  = "away"  // of the host: no attempt, its URIs stay
		later = "later" // an attempt, with others to come
		never = "never"
		ends  = "ends" // the crawl stops: it is of this machine
	)
	places := map[string][]fetch.Reason{
		away: {fetch.Connect, fetch.TimeoutConnect, fetch.DNS},
		later: {fetch.RefusedProxy, fetch.ConnectionLost, fetch.TimeoutRead, fetch.Timeout, fetch.TooSlow, fetch.BadResponse, fetch.Incomplete,
			fetch.Proxy, fetch.ProxyTarget, fetch.Status, fetch.Canceled},
		never: {fetch.BadURI, fetch.BadRequest, fetch.RefusedAddress, fetch.RefusedPort, fetch.DNSNotFound, fetch.TLS, fetch.TLSExpired, fetch.TLSHostname,
			fetch.TLSUnknownAuthority, fetch.TooLarge, fetch.TooManyRedirects, fetch.RedirectLoop, fetch.BadRedirect, fetch.BadEncoding},
		ends: {fetch.Storage},
	}
	want := map[fetch.Reason]string{}
	for place, reasons := range places {
		for _, r := range reasons {
			want[r] = place
		}
	}
	c, err := Begin(t.Context(), t.TempDir(), setting("http://a.example/", 1, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	lease := &frontier.Lease{}
	lease.URI, lease.Host = "http://a.example/", "a.example"
	place := func(err error) string {
		if c.unreached(lease, err) != nil {
			return away
		}
		switch r, err := c.failed(lease, err); {
		case err != nil:
			return ends
		case r.Failure.Permanent:
			return never
		case r.Failure.After <= 0:
			t.Errorf("%v: tried again at once", err)
		}
		return later
	}
	for _, m := range fetch.Reasons() {
		if got := place(&fetch.Error{Reason: m.Reason, Permanent: m.Permanent, URI: lease.URI}); got != want[m.Reason] {
			t.Errorf("%s: got %q, want %q", m.Reason, got, want[m.Reason])
		}
		redirected := want[m.Reason]
		if redirected == away { // of another host or port, to which a redirect led
			redirected = later
		}
		for _, to := range []string{"http://b.example/", "https://a.example/"} {
			if got := place(&fetch.Error{Reason: m.Reason, Permanent: m.Permanent, URI: to}); got != redirected {
				t.Errorf("%s of %s: got %q, want %q", m.Reason, to, got, redirected)
			}
		}
	}
	for host, want := range map[string]string{"a.example": away, "b.example": later} {
		if got := place(&unavailable{at: &uri.URI{Scheme: "http", Host: host, Port: 80}, err: errors.New("status 503")}); got != want {
			t.Errorf("robots.txt of %s: got %q, want %q", host, got, want)
		}
	}
}

// A robots.txt that asks for a pause asks for its host, also where only a redirect has led.
func TestPauseOfRobotsBehindARedirect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := Begin(t.Context(), t.TempDir(), setting("http://a.example/", 1, 1), Options{})
		if err != nil {
			t.Fatal(err)
		}
		lease := &frontier.Lease{}
		lease.URI, lease.Host = "http://a.example/", "a.example"
		if later := c.unreached(lease, &unavailable{at: &uri.URI{Scheme: "http", Host: "b.example", Port: 80}, after: time.Minute, err: errors.New("status 503")}); later != nil {
			t.Errorf("the host of the lease waits: %+v", later)
		}
		for host, want := range map[string]time.Duration{"a.example": 0, "b.example": time.Minute} {
			began := time.Now()
			if err := c.frontier.Turn(t.Context(), host); err != nil || time.Since(began) != want {
				t.Errorf("%s: a turn after %s, %v; want %s", host, time.Since(began), err, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
