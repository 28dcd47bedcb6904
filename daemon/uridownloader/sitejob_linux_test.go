package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The job of docs/examples/site crawls a site: each page once, and none outside the site.
func TestSystemSiteAsAJob(t *testing.T) {
	t.Parallel()
	const pages = 40
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		n := 0
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); r.URL.Path != "/" && (err != nil || n >= pages) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<a href="/%d">one</a> <a href="./%d">two</a> <a href="/">home</a> <a href="/secret" rel="nofollow">no</a>`, 3*n+1, 3*n+2)
		_, _ = fmt.Fprintf(w, `<a href="http://%s/%d">three</a> <a href="mailto:a@b.example">mail</a> <a href="//other.example/">out</a>`, r.Host, 3*n+3)
	}))
	t.Cleanup(server.Close)
	p := released(t)
	example := filepath.Join("..", "..", "docs", "examples", "site")
	for _, name := range []string{"site.yaml", "parse.star"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, p.dir, name, strings.NewReplacer("https://site.example", server.URL, "delay: 1s", "delay: 0s").Replace(string(text)))
	}
	p.start()
	t.Cleanup(p.Kill)
	p.must("", "job", "add", filepath.Join(p.dir, "site.yaml"))
	// Pages 0 to 39, the links of which are 121 to the last that does not exist, and a run of parse for each page.
	const missing = 3*(pages-1) + 3 - (pages - 1)
	got := p.settled("site", 2*pages+missing)
	if got["done"] != 2*pages || got["failed"] != missing {
		t.Errorf("tasks: %v, want %d done and %d that do not exist", got, 2*pages, missing)
	}
	mu.Lock()
	defer mu.Unlock()
	for n := range pages {
		path := fmt.Sprintf("/%d", n)
		if n == 0 {
			path = "/"
		}
		if asked[path] != 1 {
			t.Errorf("%s: asked for %d times", path, asked[path])
		}
	}
	if asked["/secret"] > 0 {
		t.Error("what is nofollow was followed")
	}
	links := 0
	for line := range strings.Lines(p.must("", "data", "site", "--json")) {
		var d datum
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		links += len(d.Data)
	}
	if links != 7*pages {
		t.Errorf("%d links are recorded, want %d", links, 7*pages)
	}
}
