package crawl

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

// TestArchiveHasAllAnswers: each answer that the crawl got is in the archive, once: pages, redirects, errors
// and robots.txt. Without them a replay stops at the first redirect.
func TestArchiveHasAllAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = w.Write([]byte("User-agent: *\nDisallow: /forbidden\n"))
		case "/":
			http.Redirect(w, r, "/hop", http.StatusMovedPermanently)
		case "/hop":
			http.Redirect(w, r, "/home", http.StatusFound)
		case "/home":
			_, _ = w.Write([]byte("<!doctype html><a href=/missing>x</a><a href=/gone>x</a><a href=/away>x</a><a href=/empty>x</a><a href=/forbidden>x</a>"))
		case "/gone":
			http.Error(w, "it is gone", http.StatusGone)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusSeeOther)
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s := setting(server.URL+"/", 100, 2)
	s.WARC = true
	dir := t.TempDir()
	if p := run(t, dir, s); p.Stored != 1 || p.Reasons["http_204"] != 1 || p.Skipped["redirect"] != 1 {
		t.Errorf("%+v", p)
	}
	f, err := os.Open(filepath.Join(dir, archiveDir, "crawl-00000.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)WARC-Type: response\r\n.*?WARC-Target-URI: (\S+)\r\n.*?\r\n\r\nHTTP/1.1 (\d+) `).FindAllStringSubmatch(string(text), -1) {
		got[m[2]+" "+strings.TrimPrefix(m[1], server.URL)]++
	}
	want := map[string]int{"200 /robots.txt": 1, "301 /": 1, "302 /hop": 1, "200 /home": 1, "404 /missing": 1, "410 /gone": 1, "303 /away": 1, "204 /empty": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the archive has %v, want %v", got, want)
	}
	if !strings.Contains(string(text), "\r\nLocation: /hop\r\n") || !strings.Contains(string(text), "it is gone") || !strings.Contains(string(text), "Disallow: /forbidden") {
		t.Error("a header or a body is missing")
	}
}

// TestHeadersThatSteer: the header Refresh is a link, and pages that ask not to be indexed are marked; their links
// are followed.
func TestHeadersThatSteer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Refresh", "0; url=/refreshed")
		case "/refreshed":
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Refresh", "5;URL='/again'")
			w.Header().Set("X-Robots-Tag", "noindex")
		case "/again":
			_, _ = w.Write([]byte("<!doctype html><meta name=robots content=noindex><a href=/last>x</a>"))
		case "/last":
			w.Header().Set("Refresh", "30")
			w.Header().Set("X-Robots-Tag", "otherbot: noindex")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	run(t, dir, setting(server.URL+"/", 100, 1))
	all, err := crawltest.Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range all {
		got += fmt.Sprint(strings.TrimPrefix(r.URI, server.URL), " ", r.NoIndex, "; ")
	}
	if want := "/ false; /refreshed true; /again true; /last false; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
