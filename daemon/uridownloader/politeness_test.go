package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// hosts is a web server under many names, 127.0.0.N, which records who calls each of them when.
type hosts struct {
	*httptest.Server
	port string

	mu      sync.Mutex
	visits  map[string][]visit // by host
	running map[string]int
	pages   map[string]int // number of requests, by URI
	crowded []string       // hosts that got requests for two pages at once
	by      map[string]int // visits of each worker
}

type visit struct {
	at     time.Time
	worker string
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{visits: map[string][]visit{}, running: map[string]int{}, pages: map[string]int{}, by: map[string]int{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = h.Listener.Close()
	h.Listener = l
	h.Start()
	t.Cleanup(h.Close)
	_, h.port, _ = net.SplitHostPort(l.Addr().String())
	return h
}

func (h *hosts) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.visits[r.Host] = append(h.visits[r.Host], visit{time.Now(), r.UserAgent()})
	h.by[r.UserAgent()]++
	h.pages["http://"+r.Host+r.URL.Path]++
	if h.running[r.Host]++; h.running[r.Host] > 1 {
		h.crowded = append(h.crowded, r.Host)
	}
	h.mu.Unlock()
	time.Sleep(20 * time.Millisecond) // a page takes a while
	h.mu.Lock()
	h.running[r.Host]--
	h.mu.Unlock()
	_, _ = fmt.Fprintf(w, "<p>%s%s</p>", r.Host, r.URL.Path)
}

// asked waits until a worker has made n visits.
func (h *hosts) asked(t *testing.T, worker string, n int) {
	t.Helper()
	testserver.Await(t, fmt.Sprintf("%s has made %d visits", worker, n), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.by[worker] >= n
	})
}

// Two worker processes share hosts. One is killed, and another one comes: no host gets requests sooner
// than its delay allows or for two pages at once, whoever sends them, and every page is stored once.
func TestSystemPolitenessOfWorkersThatAreKilled(t *testing.T) {
	const (
		names, pages = 40, 6
		delay        = 4 * time.Second
		// The worker sends requests with this time between them. On a busy machine the first may take part
		// of it longer to arrive than the second; if the delay were not kept, there would be no gap at all.
		least = delay / 2
	)
	t.Parallel()
	h, filter := newHosts(t), clienttest.NewServer(t)
	env, dir := environ{"URIDOWNLOADER_WORKER_LEASE=10s"}, filepath.Join(t.TempDir(), "data")
	master := env.role(t, "", dir, filter.URL, "master", "--dispatch")
	worker := func(name string) *process {
		return append(env, "URIDOWNLOADER_USER_AGENT="+name).role(t, "", dir, filter.URL, "worker", "--allow-private")
	}
	one := worker("one")
	one.logged(`"held":256`) // else the other one may be first, and give up shards
	worker("two")
	one.logged(`"given up":128`) // each has its part
	job := write(t, master.dir, "news.yaml", fmt.Sprintf("name: news\nsetting: {delay: %s, concurrency: 1, dispatch: 1000, robots: false, max_download_times: 5}\n", delay))
	master.must("", "job", "add", job)
	var list strings.Builder
	for page := range pages {
		for name := range names {
			fmt.Fprintf(&list, "http://127.0.0.%d:%s/%d\n", name+2, h.port, page)
		}
	}
	master.must(list.String(), "job", "uris", "news")
	h.asked(t, "one", 20)
	h.asked(t, "two", 20)
	one.Kill()
	worker("three")
	if got := master.settled("news", names*pages); got["done"] != names*pages {
		t.Errorf("tasks: %v, want all done", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	shortest, switches := time.Hour, 0
	for host, visits := range h.visits {
		for i := 1; i < len(visits); i++ {
			gap := visits[i].at.Sub(visits[i-1].at)
			shortest = min(shortest, gap)
			if visits[i].worker != visits[i-1].worker {
				switches++
			}
			if gap < least {
				t.Errorf("%s: %s asked %s after %s", host, visits[i].worker, gap, visits[i-1].worker)
			}
		}
	}
	t.Logf("shortest gap %s of %s; %d hosts went to another worker; visits: %v", shortest, delay, switches, h.by)
	if len(h.crowded) > 0 {
		t.Errorf("asked for two pages at once: %v", h.crowded)
	}
	if h.by["one"] == 0 || h.by["two"] == 0 || h.by["three"] == 0 || switches == 0 {
		t.Errorf("visits %v, %d hosts went to another worker: not tried", h.by, switches)
	}
	stored := map[string]bool{}
	for line := range strings.Lines(master.must("", "data", "news", "--json")) {
		var d struct{ URI string }
		if err := json.Unmarshal([]byte(line), &d); err != nil || stored[d.URI] {
			t.Fatalf("%s: %v, there before: %t", line, err, stored[d.URI])
		}
		stored[d.URI] = true
	}
	for uri, n := range h.pages {
		if !stored[uri] || n > 2 {
			t.Errorf("%s: stored %t, asked for %d times", uri, stored[uri], n)
		}
	}
	if len(stored) != names*pages {
		t.Errorf("%d pages are stored, want %d", len(stored), names*pages)
	}
}

// Two names of one server share a pace once both have answered from its address.
func TestSystemHostsOfOneAddress(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Second
	h, p := newHosts(t), start(t)
	p.must("", "job", "add", write(t, p.dir, "news.yaml", fmt.Sprintf("name: news\nsetting: {delay: %s, concurrency: 1, robots: false}\n", delay)))
	add := func(from, to int) {
		var list strings.Builder
		for page := from; page < to; page++ {
			fmt.Fprintf(&list, "http://localhost:%s/%d\nhttp://127.0.0.1:%s/%d\n", h.port, page, h.port, page)
		}
		p.must(list.String(), "job", "uris", "news")
		p.settled("news", 2*to)
	}
	add(0, 1)
	h.mu.Lock()
	clear(h.visits)
	h.mu.Unlock()
	add(1, 3)
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Time
	for _, visits := range h.visits {
		for _, v := range visits {
			all = append(all, v.at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	if len(h.visits) != 2 || len(all) != 4 {
		t.Fatalf("visits: %v", h.visits)
	}
	for i := range all[1:] {
		// A request may arrive late by part of the delay; without a delay between them, requests come in pairs.
		if gap := all[i+1].Sub(all[i]); gap < delay/2 {
			t.Errorf("two requests to one address within %s, want %s", gap, delay)
		}
	}
}
