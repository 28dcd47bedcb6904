package collystorage_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocolly/colly/v2"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/collystorage"
)

// startDaemon builds the daemon of this repository, runs it until the test ends, and
// returns a client for it.
func startDaemon(t *testing.T) *client.Client {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "urifilter")
	// go run caches the binary that it links; go build would link it again.
	build := exec.CommandContext(t.Context(), "go", "run", "-exec=cp", "./daemon/urifilter", binary)
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0") // as all others, also under the race detector
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	daemon.Env = append(os.Environ(), "URIFILTER_URI_NUM_SCALE=100000")
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		daemon.Process.Kill()
		daemon.Wait()
	})
	// The system chooses a free port; the daemon's log says which one.
	ready := regexp.MustCompile(`"msg":"ready".*"address":"(http://[^"]+)"`)
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		if said := ready.FindSubmatch(text); said != nil {
			c, err := client.New(string(said[1]))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("the daemon does not get ready:\n%s", text)
		}
	}
}

// site serves pages 0 to 99, each with links to ten others, and counts its visits.
func site(t *testing.T) (url string, visits func() (pages, all int)) {
	var mu sync.Mutex
	count := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		count[r.URL.Path]++
		mu.Unlock()
		var page int
		fmt.Sscanf(r.URL.Path, "/%d", &page)
		w.Header().Set("Content-Type", "text/html")
		for i := range 10 {
			fmt.Fprintf(w, `<a href="/%d">next</a>`, (page*7+i*13)%100)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		all := 0
		for _, n := range count {
			all += n
		}
		return len(count), all
	}
}

func collector(t *testing.T, c *client.Client, typ string) *colly.Collector {
	t.Helper()
	collect := colly.NewCollector(colly.Async(true))
	if err := collect.SetStorage(collystorage.New(c, typ)); err != nil {
		t.Fatal(err)
	}
	collect.OnHTML("a[href]", func(e *colly.HTMLElement) { e.Request.Visit(e.Attr("href")) })
	return collect
}

// Several collectors, like several processes, together visit each page once.
func TestCollectorsShareACrawl(t *testing.T) {
	c := startDaemon(t)
	url, visits := site(t)
	var wait sync.WaitGroup
	for range 4 {
		collect := collector(t, c, "uri")
		wait.Go(func() {
			collect.Visit(url + "/0")
			collect.Wait()
		})
	}
	wait.Wait()
	if pages, all := visits(); pages != 100 || all != 100 {
		t.Errorf("%d visits of %d pages, want 100 of 100", all, pages)
	}

	again := collector(t, c, "uri")
	if err := again.Visit(url + "/0"); !errors.As(err, new(*colly.AlreadyVisitedError)) {
		t.Errorf("a page of the crawl before: got %v", err)
	}
	apart := collector(t, c, "uri_parse")
	if visited, err := apart.HasVisited(url + "/0"); err != nil || visited {
		t.Errorf("in another filter: visited %t, %v", visited, err)
	}
	if err := apart.Visit(url + "/0"); err != nil {
		t.Errorf("in another filter, after asking: %v", err)
	}
	apart.Wait()
	if _, all := visits(); all != 200 {
		t.Errorf("%d visits after a crawl of another filter, want 200", all)
	}
}

func TestOnlyOneIsFirst(t *testing.T) {
	c := startDaemon(t)
	var stores []*collystorage.Storage
	for range 8 {
		s := collystorage.New(c, "uri")
		if err := s.Init(); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	for id := range uint64(50) {
		var first atomic.Int32
		var wait sync.WaitGroup
		for _, s := range stores {
			wait.Go(func() {
				if visited, err := s.IsVisited(id); err != nil || visited {
					if err != nil {
						t.Error(err)
					}
					return
				}
				switch err := s.Visited(id); {
				case err == nil:
					first.Add(1)
				case !errors.Is(err, collystorage.ErrTaken):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if first.Load() != 1 {
			t.Errorf("request %d: first for %d", id, first.Load())
		}
		last := collystorage.New(c, "uri")
		if err := last.Init(); err != nil {
			t.Fatal(err)
		}
		if visited, err := last.IsVisited(id); err != nil || !visited {
			t.Errorf("request %d: visited %t, %v", id, visited, err)
		}
		if err := last.Visited(id); err != nil {
			t.Errorf("request %d, told to be visited: %v", id, err)
		}
	}
}

func TestUnknownFilterStopsAVisit(t *testing.T) {
	c := startDaemon(t)
	url, visits := site(t)
	err := collector(t, c, "nope").Visit(url + "/0")
	var e *client.Error
	if !errors.As(err, &e) || e.ErrorCode != "unknown_filter" {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.CreateFilter(context.Background(), "nope", client.FilterSpec{Capacity: 1000}); err != nil {
		t.Fatal(err)
	}
	collect := collector(t, c, "nope")
	if err := collect.Visit(url + "/0"); err != nil {
		t.Error(err)
	}
	collect.Wait()
	if pages, all := visits(); pages != 100 || all != 100 {
		t.Errorf("%d visits of %d pages", all, pages)
	}
}
