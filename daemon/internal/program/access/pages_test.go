package access_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// Without tokens only this machine can call, but a web page in a browser on this machine may be
// anybody's. The Host of a call is the caller's name for the daemon; Origin and Sec-Fetch-Site
// are set by browsers and cannot be forged by pages.
func TestWebPagesOfOthersAreRefused(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.AllowedHosts = []string{"filter.example", "proxy.example"} })
	port := r.HTTP.Listener.Addr().(*net.TCPAddr).Port
	own := fmt.Sprintf("127.0.0.1:%d", port)
	for _, test := range []struct {
		name, host string
		header     []string
		want       int
		detail     string
	}{
		{"Go, curl, Prometheus", own, nil, 200, ""},
		{"a name", "localhost:8000", nil, 200, ""},
		{"a name in capitals", "LocalHost", nil, 200, ""},
		{"a name with a dot", "localhost.:8000", nil, 200, ""},
		{"a tunnel's port", "localhost:9999", nil, 200, ""},
		{"another loopback address", "127.8.9.10:8000", nil, 200, ""},
		{"IPv6", "[::1]:8000", nil, 200, ""},
		{"IPv6 without a port", "[::1]", nil, 200, ""},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:80", nil, 200, ""},
		{"a name of the settings", "filter.example:8000", nil, 200, ""},
		{"the daemon's own page", own, []string{"Origin", "http://" + own, "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"its page, in an old browser", own, []string{"Origin", "http://" + own}, 200, ""},
		{"an address typed by a person", own, []string{"Sec-Fetch-Site", "none"}, 200, ""},
		{"its page, by a proxy that says another Host", own, []string{"Origin", "https://proxy.example", "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"DNS rebinding", "evil.example:8000", nil, 403, `Host "evil.example:8000": want`},
		{"DNS rebinding, in a page", "evil.example", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, 403, "auth.allowed_hosts"},
		{"an address of the machine", "192.0.2.7:8000", nil, 403, ""},
		{"every address", "0.0.0.0:8000", nil, 403, ""},
		{"a name that ends so", "evil-localhost:8000", nil, 403, ""},
		{"a name that begins so", "localhost.evil.example", nil, 403, ""},
		{"a name under it", "127.0.0.1.evil.example", nil, 403, ""},
		{"a page of another site", own, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403, "Sec-Fetch-Site"},
		{"the same in an old browser", own, []string{"Origin", "https://evil.example"}, 403, `Origin "https://evil.example"`},
		{"a page in a frame, or in a file", own, []string{"Origin", "null"}, 403, ""},
		{"another port of this machine", own, []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, 403, ""},
		{"the same in an old browser", own, []string{"Origin", "http://127.0.0.1:1"}, 403, ""},
		{"a link on another site", own, []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"a word that no browser has yet", own, []string{"Sec-Fetch-Site", "other"}, 403, ""},
		{"an Origin too many", own, []string{"Origin", "http://" + own, "Origin", "https://evil.example"}, 403, ""},
	} {
		for method, path := range map[string]string{"POST": "/api/v1/check?filter_typeid=uri", "GET": "/readyz", "DELETE": "/api/v1/filters/ip?confirm=ip"} {
			if method == "DELETE" && test.want == 200 {
				continue // it would be dropped
			}
			req, err := http.NewRequest(method, r.HTTP.URL+path, strings.NewReader("a\n"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			req.Header.Set("Content-Type", "text/plain") // a page may send it without asking
			for i := 0; i < len(test.header); i += 2 {
				req.Header.Add(test.header[i], test.header[i+1])
			}
			a := r.Send(req, "a\n")
			if a.Status != test.want {
				t.Errorf("%s: %s answered %d, want %d: %s", test.name, method, a.Status, test.want, a.Body)
			}
			if a.Status == 403 && (a.Problem(t).ErrorCode != problem.CrossSite || !strings.Contains(a.Problem(t).Detail, test.detail)) {
				t.Errorf("%s: %s: %s", test.name, method, a.Body)
			}
		}
	}
	if _, err := r.Engine.Lookup("ip"); err != nil {
		t.Error(err)
	}
	// HTTP/1.0 may omit Host.
	if a := apitest.Raw("GET /readyz HTTP/1.0\r\n\r\n")(r); a.Status != 200 {
		t.Errorf("without a Host: %d %s", a.Status, a.Body)
	}
}

// If tokens are required, a page has none, whatever Host it uses.
func TestWithTokensAnyNameWillDo(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	req, err := http.NewRequest("GET", r.HTTP.URL+"/api/v1/filters", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "filter.example"
	req.Header.Set("Authorization", "Bearer secret-read")
	req.Header.Set("Origin", "https://other.example")
	if a := r.Send(req, ""); a.Status != 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// No browser can reach a Unix socket, and its callers send any Host; a proxy in front of
// browsers passes on their headers about the page.
func TestHostOverAUnixSocket(t *testing.T) {
	r := apitest.New(t)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(r.API)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	for site, want := range map[string]int{"": 200, "same-origin": 200, "cross-site": 403} {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		req, err := http.NewRequest("GET", "http://any-name/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if site != "" {
			req.Header.Set("Sec-Fetch-Site", site)
		}
		if a := exchange(t, c, req); a.Status != want {
			t.Errorf("Sec-Fetch-Site %q: %d, want %d: %s", site, a.Status, want, a.Body)
		}
	}
}

func exchange(t *testing.T, c net.Conn, req *http.Request) apitest.Answer {
	t.Helper()
	if err := req.Write(c); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return apitest.Answer{Status: resp.StatusCode, Header: resp.Header, Trailer: resp.Trailer, Body: string(text)}
}
