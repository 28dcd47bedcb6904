package fetch

import (
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

func start(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestFetch(t *testing.T) {
	page := strings.Repeat("<p>page</p>", 100_000)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/a b/../page?q=%zz", http.StatusMovedPermanently)
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, page)
			_ = z.Close()
		case "/echo":
			text, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s %s %s %s", r.Method, r.Header.Get("User-Agent"), r.Header.Get("Accept-Encoding"), r.Header.Get("X-A"), r.Header.Get("Authorization"), text)
		case "/busy":
			w.Header().Set("Retry-After", "120")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	})
	f := fetcher(t, Options{})
	answer, text, e := get(t, f, Request{URI: s.URL})
	if e != nil {
		t.Fatal(e)
	}
	if text != page || answer.Body.Size() != int64(len(page)) || answer.Body.SHA256() != sha256.Sum256([]byte(page)) {
		t.Errorf("body of %d bytes", answer.Body.Size())
	}
	if answer.URI != s.URL+"/page?q=%zz" || answer.Status != 200 || answer.ContentType != "text/html; charset=utf-8" ||
		answer.Remote != s.Listener.Addr().String() {
		t.Errorf("got %+v", answer)
	}
	if answer.Failure() != nil {
		t.Errorf("failure %v", answer.Failure())
	}
	_, text, e = get(t, f, Request{URI: strings.Replace(s.URL, "//", "//me:secret@", 1) + "/echo", Method: "POST", Body: []byte("sent"), Header: header("X-a", "b")})
	if want := "POST uridownloader gzip, deflate, br, zstd b Basic bWU6c2VjcmV0 sent"; e != nil || text != want {
		t.Errorf("got %q and %v, want %q", text, e, want)
	}
	answer, text, e = get(t, f, Request{URI: s.URL + "/busy"})
	if e != nil || text != "busy\n" || answer.After != 2*time.Minute {
		t.Errorf("busy: got %q, %+v and %v", text, answer, e)
	}
	if e = answer.Failure(); e.Reason != Status || e.Permanent || e.After != 2*time.Minute || !strings.HasSuffix(e.Error(), "503 Service Unavailable") {
		t.Errorf("busy: %+v", e)
	}
	answer, _, e = get(t, f, Request{URI: s.URL + "/none", Method: "HEAD"})
	if e != nil || answer.Status != 404 || !answer.Failure().Permanent {
		t.Errorf("not found: got %+v and %v", answer, e)
	}
}

func TestPermanentStatus(t *testing.T) {
	for status, want := range map[int]bool{400: true, 401: true, 403: true, 404: true, 410: true, 451: true, 408: false, 421: false, 425: false, 429: false, 500: false, 501: true, 502: false, 503: false, 504: false, 505: true, 599: false} {
		if got := PermanentStatus(status); got != want {
			t.Errorf("%d: permanent %t, want %t", status, got, want)
		}
	}
}

// Another host gets only fields that are meant for any host, whatever the others are called, and also
// another port, or the same host without TLS, is another one.
func TestOnlyHarmlessFieldsCrossHosts(t *testing.T) {
	sent := http.Header{}
	for _, name := range []string{"Authorization", "Cookie", "Cookie2", "X-Api-Key", "X-Auth-Token", "X-Csrf-Token", "Referer", "Origin", "Forwarded", "X-Forwarded-For", "From", "If-None-Match",
		"If-Match", "Api-Key", "Token", "X-Anything", "Amz-Sdk-Request", "Authentication", "Www-Authenticate", "Signature", "Sec-Fetch-Site", "Want-Digest"} {
		sent.Set(name, "of the first host")
	}
	for name := range crosses {
		sent.Set(name, "for all")
	}
	got := make(chan http.Header, 1)
	other := start(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.RawQuery, http.StatusTemporaryRedirect)
	})
	f := fetcher(t, Options{})
	for _, to := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
		for _, method := range []string{"GET", "POST"} {
			if _, _, e := get(t, f, Request{URI: s.URL + "/?" + to, Method: method, Header: sent}); e != nil {
				t.Fatal(e)
			}
			fields := <-got
			for name, values := range fields {
				if values[0] == "of the first host" || values[0] == "for all" && !crosses[name] {
					t.Errorf("%s to %s: %s has crossed", method, to, name)
				}
			}
			if fields.Get("Accept-Language") != "for all" || fields.Get("User-Agent") != "for all" {
				t.Errorf("%s to %s: what is for all has not crossed: %v", method, to, fields)
			}
		}
	}
}

// Method, body, cookies and secrets, across redirects of all kinds.
func TestRedirects(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %q %q %q", r.Method, text, r.Header.Get("Cookie"), r.Header.Get("Authorization"))
	}
	other := start(t, echo)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		if n, _ := fmt.Sscanf(r.URL.Path, "/%d", &status); n == 0 {
			echo(w, r)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "1"})
		http.Redirect(w, r, r.URL.RawQuery, status)
	})
	f := fetcher(t, Options{})
	for _, test := range []struct{ path, method, want string }{
		{"/301?/x", "POST", `GET "" "a=b; visit=1" "Bearer x"`},
		{"/302?/x", "POST", `GET "" "a=b; visit=1" "Bearer x"`},
		{"/303?/x", "PUT", `GET "" "a=b; visit=1" "Bearer x"`},
		{"/307?/x", "POST", `POST "sent" "a=b; visit=1" "Bearer x"`},
		{"/308?/x", "PUT", `PUT "sent" "a=b; visit=1" "Bearer x"`},
		{"/302?/x", "PUT", `PUT "sent" "a=b; visit=1" "Bearer x"`},
		{"/307?" + other.URL, "POST", `POST "sent" "visit=1" ""`}, // cookies ignore ports
		{"/307?" + strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "POST", `POST "sent" "" ""`},
	} {
		jar, _ := cookiejar.New(nil)
		_, text, e := get(t, f, Request{URI: s.URL + test.path, Method: test.method, Body: []byte("sent"), Jar: jar, Header: header("Cookie", "a=b", "Authorization", "Bearer x")})
		if e != nil || text != test.want {
			t.Errorf("%s %s: got %s and %v, want %s", test.method, test.path, text, e, test.want)
		}
	}
	for path, want := range map[string]Reason{"/307?/x": "", "/302?" + other.URL: "", "/307?" + other.URL: BadRedirect, "/308?" + strings.Replace(s.URL, "127.0.0.1", "localhost", 1): BadRedirect} {
		_, _, e := get(t, f, Request{URI: s.URL + path, Method: "POST", Body: []byte("sent"), OwnBody: true})
		if want == "" && e != nil || want != "" && (e == nil || e.Reason != want) {
			t.Errorf("a body that is of one host, %s: %v, want %q", path, e, want)
		}
	}
	// A page that wants a cookie redirects to itself until the cookie is there: that is no loop.
	wants := start(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("here"); err != nil {
			http.SetCookie(w, &http.Cookie{Name: "here", Value: "1"})
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "welcome")
	})
	jar, _ := cookiejar.New(nil)
	if _, text, e := get(t, f, Request{URI: wants.URL, Jar: jar}); e != nil || text != "welcome" {
		t.Errorf("with cookies: got %q and %v", text, e)
	}
	if _, _, e := get(t, f, Request{URI: wants.URL}); e == nil || e.Reason != RedirectLoop {
		t.Errorf("without cookies: got %v", e)
	}
}

func certificate(t testing.TB, pair certtest.Pair) *tls.Config {
	t.Helper()
	c, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}}
}

func TestTLS(t *testing.T) {
	authority, stranger := certtest.New(t, "authority"), certtest.New(t, "stranger")
	f := fetcher(t, Options{Roots: authority.Roots()})
	old := certificate(t, authority.Issue(t, "old", time.Hour, "127.0.0.1"))
	old.MaxVersion = tls.VersionTLS11
	for name, test := range map[string]struct {
		with *tls.Config
		want Reason
	}{
		"good":    {certificate(t, authority.Issue(t, "good", time.Hour, "127.0.0.1")), ""},
		"expired": {certificate(t, authority.Issue(t, "expired", -time.Hour, "127.0.0.1")), TLSExpired},
		"other":   {certificate(t, authority.Issue(t, "other", time.Hour, "other.example")), TLSHostname},
		"unknown": {certificate(t, stranger.Issue(t, "unknown", time.Hour, "127.0.0.1")), TLSUnknownAuthority},
		"old":     {old, TLS},
	} {
		s := serve(t, test.with, func(conn net.Conn, _ string) { say(conn, ok("page"), false) })
		_, text, e := get(t, f, Request{URI: strings.Replace(s.uri(), "http:", "https:", 1)})
		if test.want == "" && (e != nil || text != "page") || test.want != "" && (e == nil || e.Reason != test.want || !e.Permanent) {
			t.Errorf("%s: got %q and %v, want %s", name, text, e, test.want)
		}
	}
	// Servers that speak no TLS, or stop in the middle.
	for name, test := range map[string]struct {
		says string
		hang bool
		want Reason
	}{
		"http": {"HTTP/1.1 400 Bad Request\r\n\r\n", false, TLS}, "alert": {"\x15\x03\x03\x00\x02\x02\x28", false, TLS}, "closed": {"", false, ConnectionLost},
		"half a record": {"\x16\x03\x03\x40\x00\x02", false, ConnectionLost}, "nothing": {"", true, TimeoutConnect},
	} {
		s := plain(t, func(conn net.Conn) {
			_, _ = io.ReadAtLeast(conn, make([]byte, 100), 100)
			say(conn, test.says, false)
			if test.hang {
				hangUp(conn)
			}
		})
		limit := time.Minute
		if test.hang {
			limit = 2 * time.Second // the test takes that long
		}
		if _, _, e := get(t, f, Request{URI: "https://" + s, Connect: limit}); e == nil || e.Reason != test.want {
			t.Errorf("%s: got %v, want %s", name, e, test.want)
		}
	}
	// The connection is reset in the middle of the body, without the end that TLS has.
	s := serve(t, certificate(t, authority.Issue(t, "good", time.Hour, "127.0.0.1")), func(conn net.Conn, _ string) {
		say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", false)
		_ = conn.(*tls.Conn).NetConn().Close()
	})
	if _, _, e := get(t, f, Request{URI: strings.Replace(s.uri(), "http:", "https:", 1)}); e == nil || e.Reason != Incomplete && e.Reason != ConnectionLost {
		t.Errorf("reset in the body: got %v", e)
	}
}

// plain is a server that gets connections as they come. It returns its address.
func plain(t testing.TB, speak func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close() //nolint:errcheck // the client may have closed it
				speak(conn)
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func TestHTTP2(t *testing.T) {
	authority := certtest.New(t, "authority")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		case "/hang":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/broken":
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, r.Proto+" "+r.RequestURI)
	}))
	s.EnableHTTP2 = true
	s.TLS = certificate(t, authority.Issue(t, "server", time.Hour, "127.0.0.1"))
	s.StartTLS()
	t.Cleanup(s.Close)
	f := fetcher(t, Options{Roots: authority.Roots()})
	for range 2 {
		answer, text, e := get(t, f, Request{URI: s.URL + "/x?a b"})
		if e != nil || text != "HTTP/2.0 /x?a%20b" {
			t.Fatalf("got %+v, %q and %v", answer, text, e)
		}
	}
	// The server resets the stream because of the path, and net/http would retry endlessly.
	if _, _, e := get(t, f, Request{URI: s.URL + "/%zz"}); e == nil || e.Reason != BadResponse {
		t.Errorf("refused again and again: got %v", e)
	}
	if _, _, e := get(t, f, Request{URI: s.URL + "/endless", BodyLimit: 1 << 20}); e == nil || e.Reason != TooLarge {
		t.Errorf("endless: got %v", e)
	}
	if _, _, e := get(t, f, Request{URI: s.URL + "/hang", Read: time.Second}); e == nil || e.Reason != TimeoutRead {
		t.Errorf("hang: got %v", e)
	}
	if _, _, e := get(t, f, Request{URI: s.URL + "/broken"}); e == nil || e.Reason != BadResponse {
		t.Errorf("broken: got %v", e)
	}
}

// Many at once, small and large: all memory and files are released, connections are reused.
func TestManyAtOnce(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 1+len(r.URL.Path)*100_000/8))
	})
	f := fetcher(t, Options{Memory: 4 << 20})
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := range 2 {
				path := fmt.Sprintf("/%d/%d", i, j)
				if _, text, e := get(t, f, Request{URI: s.URL + path}); e != nil || !strings.HasPrefix(text, path) || len(text) != len(path)*(1+len(path)*100_000/8) {
					t.Errorf("%s: got %d bytes and %v", path, len(text), e)
				}
			}
		})
	}
	all.Wait()
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 5 ": 5 * time.Second, "999999999999999999999": MaxRetryAfter, "100000": MaxRetryAfter,
		"Sun, 22 Nov 2026 12:01:00 GMT": time.Minute, "Sun, 22 Nov 2026 11:00:00 GMT": 0, "Sunday, 22-Nov-26 12:01:00 GMT": time.Minute,
		"Sun Nov 22 12:01:00 2026": time.Minute, "Fri, 31 Dec 9999 23:59:59 GMT": MaxRetryAfter,
	} {
		if got, ok := RetryAfter(value, now); !ok || got != want {
			t.Errorf("%q: got %s and %t, want %s", value, got, ok, want)
		}
	}
	for _, value := range []string{"", "-1", "1.5", "soon", "12 s", strings.Repeat("1", 101)} {
		if got, ok := RetryAfter(value, now); ok {
			t.Errorf("%q: got %s", value, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sun, 22 Nov 2026 12:01:00 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		if got, _ := RetryAfter(value, time.Unix(1e9, 0)); got < 0 || got > MaxRetryAfter {
			t.Errorf("%q: %s", value, got)
		}
	})
}
