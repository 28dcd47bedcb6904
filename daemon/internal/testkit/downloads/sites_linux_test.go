package downloads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// plan says how the pages of a job are requested.
type plan struct {
	delay       time.Duration
	concurrency int
}

// sites are the hosts: each has a loopback address, of which Linux has many, and one port. The
// first part of a path is the name of the job, the rest says what the page does:
//
//	/JOB/page/N      is a page at once
//	/JOB/slow/N      is a page after some seconds
//	/JOB/crowded/N   says 503 the first time that it is asked for
//	/JOB/broken/N    breaks the connection the first time
//	/JOB/gone/N      does not exist
//	/JOB/moved/N     leads to /JOB/target/N on the next host
type sites struct {
	addrs []string
	plans map[string]plan
	slow  time.Duration

	mu      sync.Mutex
	hosts   []*host
	asked   map[string]int // by URI
	cutOff  map[string]int // those of them that broke a connection which had served others before
	breach  []string
	least   time.Duration // between two requests, above the least that is required
	leastOf string
	request int
	// With several workers, they share a host's delay, except for targets of redirects: there each
	// worker keeps the delay only among its own requests.
	several bool
	// forbidden are the jobs that were dropped, and since when.
	forbidden map[string]time.Time
}

// servedKey is of the number of requests that a connection has served.
type servedKey struct{}

// lasts is how long a worker may continue a dropped job: a lease, plus what a busy machine adds.
const lasts = 30 * time.Second

// host is what a server knows about its requests.
type host struct {
	last, first time.Time
	lastJob     string
	lastAgent   string // of a life of a process
	n           int
	sum         time.Duration // sum of the delays
	under       map[*http.Request]int
	maxTogether int
}

func newSites(t *testing.T, n int, slow time.Duration, plans map[string]plan) *sites {
	t.Helper()
	s := &sites{plans: plans, slow: slow, asked: map[string]int{}, cutOff: map[string]int{}, forbidden: map[string]time.Time{}, least: time.Hour}
	var servers sync.WaitGroup
	t.Cleanup(servers.Wait) // runs last: they end when they are closed
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:0", i/250, 1+i%250))
		if err != nil {
			t.Fatal(err)
		}
		s.addrs = append(s.addrs, l.Addr().String())
		s.hosts = append(s.hosts, &host{under: map[*http.Request]int{}})
		server := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(i, w, r) }),
			ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
				return context.WithValue(ctx, servedKey{}, new(int))
			},
		}
		servers.Go(func() { _ = server.Serve(l) }) // until Close
		t.Cleanup(func() { _ = server.Close() })
	}
	return s
}

// arrive records a request, and returns how many times its URI was requested, including this time.
func (s *sites) arrive(i int, job, uri string, r *http.Request, counts bool) int {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request++
	h, p := s.hosts[i], s.plans[job]
	led := s.several && !counts // by a redirect
	if led && h.lastAgent != r.UserAgent() {
		s.asked[uri]++
		return s.asked[uri]
	}
	if h.n > 0 {
		want, gap := max(p.delay, s.plans[h.lastJob].delay), now.Sub(h.last)
		if h.lastAgent != r.UserAgent() {
			want = p.delay // a worker that took over the host does not know whose request was the last
		}
		if gap-want < s.least {
			s.least, s.leastOf = gap-want, fmt.Sprintf("%s, for the %dth time, after one of %s", uri, s.asked[uri]+1, h.lastJob)
		}
		if gap < want/2 {
			s.breach = append(s.breach, fmt.Sprintf("%s was asked %v after the request before, want %v (%s after %s)", uri, gap, want, job, h.lastJob))
		}
		if !led {
			h.sum += want
		}
	} else {
		h.first = now
	}
	if !led {
		h.last, h.lastJob, h.lastAgent = now, job, r.UserAgent()
		h.n++
	}
	if since, is := s.forbidden[job]; is && now.Sub(since) > lasts {
		s.breach = append(s.breach, fmt.Sprintf("%s was asked for %v after its job was dropped", uri, now.Sub(since)))
	}
	if counts {
		most := p.concurrency
		for _, c := range h.under {
			most = min(most, c)
		}
		h.under[r] = p.concurrency
		h.maxTogether = max(h.maxTogether, len(h.under))
		if len(h.under) > most {
			s.breach = append(s.breach, fmt.Sprintf("%s was asked for beside %d others, want %d at once", uri, len(h.under)-1, most))
		}
	}
	s.asked[uri]++
	return s.asked[uri]
}

// forbid records that a job was dropped.
func (s *sites) forbid(job string) {
	s.mu.Lock()
	s.forbidden[job] = time.Now()
	s.mu.Unlock()
}

// requests is how many times a URI was requested, and how many of these the client may have sent once more at its next
// turn within the same attempt, because their connection had been kept and was closed without an answer (RFC 9112, 9.3.1).
func (s *sites) requests(uri string) (asked, cutOff int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[uri], s.cutOff[uri]
}

// leave records that a request is answered, before the answer is written, because the client may be
// back before the server records anything.
func (s *sites) leave(i int, r *http.Request) {
	s.mu.Lock()
	delete(s.hosts[i].under, r)
	s.mu.Unlock()
}

func (s *sites) serve(i int, w http.ResponseWriter, r *http.Request) {
	uri := "http://" + s.addrs[i] + r.URL.Path
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 3 {
		http.NotFound(w, r)
		return
	}
	job, what := parts[0], parts[1]
	// The target of a redirect is on another host, whose delay each worker keeps alone.
	nth := s.arrive(i, job, uri, r, what != "target")
	if what == "slow" {
		timer := time.NewTimer(s.slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done(): // the client was killed
		}
	}
	s.leave(i, r)
	served := r.Context().Value(servedKey{}).(*int)
	*served++
	switch {
	case what == "gone":
		http.NotFound(w, r)
	case what == "crowded" && nth == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case what == "broken" && nth == 1:
		if *served > 1 {
			s.mu.Lock()
			s.cutOff[uri]++
			s.mu.Unlock()
		}
		panic(http.ErrAbortHandler)
	case what == "moved":
		http.Redirect(w, r, "http://"+s.addrs[(i+1)%len(s.addrs)]+"/"+job+"/target/"+parts[2], http.StatusFound)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(pageOf(uri)) // the client may be dead
	}
}

// pageOf is the page of a URI, with a length and content of its own.
func pageOf(uri string) []byte {
	return []byte("<p>" + uri + "</p>" + strings.Repeat(" ", len(uri)*37%4000) + "\n")
}

// want is the SHA-256 of the page that a URI must have in the end; "" for those that must fail.
func (s *sites) want(uri string) string {
	parts := strings.Split(uri, "/")
	switch what := parts[4]; what {
	case "gone":
		return ""
	case "moved":
		for i, addr := range s.addrs {
			if addr == parts[2] {
				uri = "http://" + s.addrs[(i+1)%len(s.addrs)] + "/" + parts[3] + "/target/" + parts[5]
			}
		}
	}
	sum := sha256.Sum256(pageOf(uri))
	return hex.EncodeToString(sum[:])
}

// uri makes the nth URI of a job.
func (s *sites) uri(job string, n int, random *rand.Rand) string {
	what := "page"
	switch random.IntN(100) {
	case 0:
		what = "slow"
	case 1:
		what = "crowded"
	case 2:
		what = "broken"
	case 3, 4:
		what = "gone"
	case 5, 6:
		what = "moved"
	}
	return "http://" + s.addrs[n%len(s.addrs)] + "/" + job + "/" + what + "/" + strconv.Itoa(n)
}

// faults are the violations of politeness. If a host is called slightly too often each time, the
// sum of its delays shows it. A single gap may be shorter than intended, because a process may be
// halted between its decision and the call, and not before the next call. The first call to a host may
// be late for that reason, and shorten the sum.
func (s *sites) faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.breach
	for i, h := range s.hosts {
		if took := h.last.Sub(h.first); h.n > 1 && took < h.sum-1500*time.Millisecond {
			all = append(all, fmt.Sprintf("%s was asked %d times within %v, want %v", s.addrs[i], h.n, took, h.sum))
		}
	}
	return all
}

// summary says what the servers saw.
func (s *sites) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, h := range s.hosts {
		most = max(most, h.maxTogether)
	}
	return fmt.Sprintf("%d requests to %d hosts, at most %d at once to one; the shortest gap was %v off its delay: %s", s.request, len(s.hosts), most, s.least.Round(time.Millisecond), s.leastOf)
}
