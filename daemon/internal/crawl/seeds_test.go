package crawl

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// TestWiden: which redirects of a seed lead to the same site.
func TestWiden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, seed, to string
		want           string // a link of the site, in the scope afterwards; "": it is not widened
	}{
		{"host", "http://example.com/", "https://www.example.com/en/", "https://www.example.com/a"},
		{"host", "https://www.example.com/", "https://example.com/", "http://example.com/a"},
		{"host", "http://example.com/", "https://example.com/", "https://example.com/a"},
		{"host", "http://example.com./", "http://www.example.com/", "http://www.example.com/a"},
		{"host", "http://example.com/", "http://shop.example.com/", ""},
		{"host", "http://example.com/", "http://example.org/", ""},
		{"host", "http://example.com:8080/", "http://www.example.com:8080/", "http://www.example.com:8080/a"},
		{"host", "http://example.com:8080/", "https://www.example.com/", ""},
		{"host", "http://example.com/", "http://example.com:8080/", ""},
		{"host", "http://192.0.2.1/", "http://192.0.2.2/", ""},
		{"prefix", "http://example.com/docs/x", "https://www.example.com/docs/y", "https://www.example.com/docs/z"},
		{"prefix", "http://example.com/docs/x", "https://www.example.com/docs/y", "http://example.com/docs/z"},
	} {
		parse := func(text string) *uri.URI {
			u, err := uri.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		s := newScope(c.kind, []*uri.URI{parse(c.seed)})
		if got := s.widen(parse(c.seed), parse(c.to)); got != (c.want != "") {
			t.Errorf("%s to %s: %t", c.seed, c.to, got)
		}
		if c.want != "" && !s.has(parse(c.want)) || !s.has(parse(c.seed)) || s.has(parse("https://www.example.org/")) {
			t.Errorf("%s to %s: scope %+v", c.seed, c.to, s.names)
		}
		if c.kind == "prefix" && s.has(parse("https://www.example.com/other")) {
			t.Errorf("%s to %s: another folder is in the scope", c.seed, c.to)
		}
	}
}

// sites starts a server for all hosts of a crawl, which find it by a resolver of their own.
func sites(t *testing.T, handler http.HandlerFunc) (port string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestSeedLeadsHome: a seed that redirects to www. gives the pages there, before and after a restart.
func TestSeedLeadsHome(t *testing.T) {
	t.Parallel()
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		host, port, _ := strings.Cut(r.Host, ":")
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case host == "site.example":
			http.Redirect(w, r, "http://www.site.example:"+port+r.URL.Path, http.StatusMovedPermanently)
		default:
			_, _ = w.Write([]byte("<!doctype html><a href=/a" + r.URL.Path + ">next</a> <a href=http://other.example:" + port + "/>away</a>"))
		}
	})
	o := Options{Fetch: fetch.Options{Resolver: testserver.Names(t, map[string][]string{"site.example.": {"127.0.0.1"}, "www.site.example.": {"127.0.0.1"}})}}
	dir := t.TempDir()
	s := setting("http://site.example:"+port+"/", 3, 1)
	s.MaxRepeated = 10
	if p := runWith(t, dir, s, o); p.Stored != 3 || p.Skipped["scope"] == 0 || p.LedAway != nil {
		t.Fatalf("%+v", p)
	}
	c, err := Resume(t.Context(), dir, func(s *Setting) error { s.MaxPages = 6; return nil }, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if p := c.Progress(); p.Stored != 6 {
		t.Errorf("after a restart: %+v", p)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestSeedLeadsAway: it is said where, and the folder is not in the way of a better attempt.
func TestSeedLeadsAway(t *testing.T) {
	t.Parallel()
	port := sites(t, func(w http.ResponseWriter, r *http.Request) {
		host, port, _ := strings.Cut(r.Host, ":")
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case host == "site.example":
			http.Redirect(w, r, "http://127.0.0.1:"+port+"/", http.StatusFound)
		default:
			_, _ = w.Write([]byte("a page"))
		}
	})
	dir := filepath.Join(t.TempDir(), "out")
	s := setting("http://site.example:"+port+"/", 3, 1)
	s.WARC = true
	p := runWith(t, dir, s, Options{Fetch: fetch.Options{Resolver: testserver.Names(t, map[string][]string{"site.example.": {"127.0.0.1"}})}})
	if p.Stored != 0 || p.LedAway == nil || p.LedAway.To != "http://127.0.0.1:"+port+"/" {
		t.Fatalf("%+v", p)
	}
	s.Private = false
	s.Seeds = []string{p.LedAway.To}
	if p := run(t, dir, s); p.Stored != 0 || p.Reasons["refused_address"] != 1 || p.LedAway != nil {
		t.Fatalf("refused: %+v", p)
	}
	s.Private = true
	if p := run(t, dir, s); p.Stored != 1 || p.Failed != 0 {
		t.Fatalf("allowed: %+v", p)
	}
	if index, err := os.ReadFile(filepath.Join(dir, IndexFile)); err != nil || strings.Count(string(index), "\n") != 1 {
		t.Errorf("%s, %v", index, err)
	}
	if _, err := Begin(t.Context(), dir, s, Options{}); err == nil {
		t.Error("a crawl with a page was begun again")
	}
}
