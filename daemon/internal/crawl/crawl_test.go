package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/crawltest"
)

// setting is for a local site, without politeness.
func setting(seed string, limit int64, threads int) Setting {
	s := Default()
	s.Seeds, s.MaxPages, s.Threads, s.Delay, s.Private, s.Attempts = []string{seed}, limit, threads, 0, true, 1
	return s
}

func serve(t *testing.T, site *crawltest.Site) string {
	t.Helper()
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// run runs a crawl to its end.
func run(t *testing.T, dir string, s Setting) Progress {
	t.Helper()
	return runWith(t, dir, s, Options{})
}

func runWith(t *testing.T, dir string, s Setting, o Options) Progress {
	t.Helper()
	c, err := Begin(t.Context(), dir, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context())); err != nil {
		t.Error(err)
	}
	p := c.Progress()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return p
}

// order returns the URIs of a crawl in the order in which they were stored, without the site's address.
func order(t *testing.T, dir, site string) (uris []string) {
	t.Helper()
	all, err := crawltest.Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		uris = append(uris, strings.TrimPrefix(r.URI, site))
	}
	return uris
}

func testCount(t *testing.T, limit int, threads ...int) {
	for _, threads := range threads {
		t.Run(fmt.Sprintf("%d pages, %d threads", limit, threads), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			site := serve(t, &crawltest.Site{Pages: 10 * limit, Slow: time.Millisecond})
			p := run(t, dir, setting(site, int64(limit), threads))
			if p.Stored != int64(limit) {
				t.Errorf("%+v", p)
			}
			if err := crawltest.Check(dir, limit); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCount(t *testing.T) { testCount(t, 150, 1, 4, 64) }

// Stands in for the 100,000 pages with 10,000, and with a second number that no batch size
// divides. With one thread the end of the count has no races, however many pages come before it.
func TestSystemCount(t *testing.T) { testCount(t, 10_000, 4, 64); testCount(t, 1013, 1, 4, 64) }

// A site with fewer pages than wanted is crawled completely, each page once.
func TestWholeSite(t *testing.T) {
	t.Parallel()
	dir, site := t.TempDir(), &crawltest.Site{Pages: 60}
	seed := serve(t, site)
	s := setting(seed, 10_000, 8)
	s.MaxDepth = 6
	p := run(t, dir, s)
	if err := crawltest.Check(dir, int(p.Stored)); err != nil {
		t.Error(err)
	}
	all := map[string]bool{}
	for _, uri := range order(t, dir, seed) {
		all[uri] = true
	}
	for i := 1; i < 60; i++ { // page 0 is the seed
		if u, _, _ := strings.Cut(findPage(all, i), ";"); u == "" {
			t.Errorf("page %d is missing", i)
		}
	}
	if p.Failed == 0 || p.Redirected == 0 || p.Duplicates == 0 || p.Reasons["http_404"] == 0 || p.Reasons["http_500"] == 0 || p.Reasons["robots"] == 0 || p.Reasons["redirect_loop"] == 0 {
		t.Errorf("%+v", p)
	}
	if p.Skipped["nofollow"] == 0 || p.Skipped["scheme"] == 0 || p.FalsePositives != 0 {
		t.Errorf("%+v", p)
	}
	if n := site.Visits("/private/8") + site.Visits("/nofollow/9"); n != 0 {
		t.Errorf("%d visits to what is forbidden", n)
	}
	if n := site.Visits("/p/7"); n != 1 {
		t.Errorf("page 7 was asked for %d times, want once", n)
	}
}

// findPage returns the spelling under which page i was stored.
func findPage(all map[string]bool, i int) string {
	for uri := range all {
		rest, ok := strings.CutPrefix(uri, "p/")
		if cut := strings.IndexAny(rest, ";?"); cut >= 0 {
			rest = rest[:cut]
		}
		if ok && rest == strconv.Itoa(i) {
			return uri
		}
	}
	return ""
}

// With one thread the same site gives the same crawl.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	site := serve(t, &crawltest.Site{Pages: 3000})
	var first []string
	for range 2 {
		dir := t.TempDir()
		run(t, dir, setting(site, 80, 1))
		uris := order(t, dir, site)
		for i := range uris {
			uris[i], _, _ = strings.Cut(uris[i], ";")
		}
		if first == nil {
			first = uris
		} else if strings.Join(first, "\n") != strings.Join(uris, "\n") {
			t.Errorf("first\n%s\nthen\n%s", strings.Join(first, "\n"), strings.Join(uris, "\n"))
		}
	}
	if first[1] != "p/1" || first[8] != "p/8" {
		t.Errorf("not breadth first: %q", first[:10])
	}
}

// A crawl that is stopped continues where it was, with the same result.
func TestStopped(t *testing.T) {
	t.Parallel()
	site := serve(t, &crawltest.Site{Pages: 3000})
	whole := t.TempDir()
	run(t, whole, setting(site, 60, 1))
	for _, threads := range []int{1, 16} {
		dir := t.TempDir()
		c, err := Begin(t.Context(), dir, setting(site, 60, threads), Options{})
		stops := 0
		for ; ; stops++ {
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			before := c.Progress().Stored
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			var result error
			for running := true; running; {
				select {
				case result = <-ended:
					running = false
				case <-time.After(time.Millisecond):
					if c.Progress().Stored > before+7 {
						cancel()
					}
				}
			}
			cancel()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if result == nil {
				break
			}
			if !errors.Is(result, context.Canceled) {
				t.Fatal(result)
			}
			c, err = Resume(t.Context(), dir, func(*Setting) error { return nil }, Options{})
		}
		if stops == 0 {
			t.Errorf("%d threads: it was never stopped", threads)
		}
		if err := crawltest.Check(dir, 60); err != nil {
			t.Errorf("%d threads: %v", threads, err)
		}
		if a, b := strings.Join(order(t, whole, site), "\n"), strings.Join(order(t, dir, site), "\n"); threads == 1 && plain(a) != plain(b) {
			t.Errorf("at once\n%s\nwith stops\n%s", a, b)
		}
	}
}

// plain removes the session ids, which differ each time.
func plain(uris string) string {
	lines := strings.Split(uris, "\n")
	for i := range lines {
		lines[i], _, _ = strings.Cut(lines[i], ";")
	}
	return strings.Join(lines, "\n")
}

func TestFolder(t *testing.T) {
	t.Parallel()
	site, dir := serve(t, &crawltest.Site{Pages: 10}), filepath.Join(t.TempDir(), "new")
	keep := func(*Setting) error { return nil }
	if _, err := Resume(t.Context(), dir, keep, Options{}); !errors.As(err, new(*NoneError)) {
		t.Errorf("resume without a crawl: %v", err)
	}
	c, err := Begin(t.Context(), dir, setting(site, 3, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), dir, keep, Options{}); err == nil || !strings.Contains(err.Error(), "another crawl is running in this folder (process ") {
		t.Errorf("two at once: %v", err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(t.Context(), dir, setting(site, 3, 1), Options{}); !errors.As(err, new(*BegunError)) {
		t.Errorf("begin in a folder with a crawl: %v", err)
	}
	other := t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, "pages"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(t.Context(), other, setting(site, 3, 1), Options{}); err == nil || !strings.Contains(err.Error(), "pages exists") {
		t.Errorf("begin in a folder with pages: %v", err)
	}
	// More pages for a crawl that is done.
	c, err = Resume(t.Context(), dir, func(s *Setting) error { s.MaxPages = 5; return nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close(), crawltest.Check(dir, 5)); err != nil {
		t.Error(err)
	}
	if c.Setting.MaxPages != 5 || c.Setting.Seeds[0] != site {
		t.Errorf("%+v", c.Setting)
	}
}

// Data that was written but not committed is removed at the next start.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	site, dir := serve(t, &crawltest.Site{Pages: 30}), t.TempDir()
	run(t, dir, setting(site, 5, 1))
	all, err := crawltest.Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{IndexFile, FailedFile, "graph.ndjson"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(`{"uri":"http://half`)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := crawltest.Records(dir); err == nil {
		t.Fatal("half a line is read as a whole one")
	}
	folder := filepath.Join(dir, "pages", filepath.Dir(all[0].File))
	for _, name := range []string{"orphan-00000000.html", "x.html.tmp"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Resume(t.Context(), dir, func(s *Setting) error { s.MaxPages = 8; return nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Run(t.Context()), c.Close(), crawltest.Check(dir, 8)); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(dir, IndexFile), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), dir, func(*Setting) error { return nil }, Options{}); err == nil || !strings.Contains(err.Error(), "lines that were committed are missing") {
		t.Errorf("an index that somebody cut: %v", err)
	}
}
