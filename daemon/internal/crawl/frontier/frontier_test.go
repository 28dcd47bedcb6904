package frontier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
)

// lines is an output in memory, which is cut to its committed length.
type lines struct {
	all  []string
	sync error
}

func (l *lines) Name() string { return "lines" }
func (l *lines) Append(o *Outcome) error {
	if o.Stored {
		l.all = append(l.all, fmt.Sprintf("%s %d %s", o.URI, o.Depth, o.Referrer))
	}
	return nil
}
func (l *lines) Sync() (string, error) { return fmt.Sprint(len(l.all)), l.sync }
func (l *lines) cut(state string) {
	n := 0
	_, _ = fmt.Sscan(state, &n)
	l.all = l.all[:n]
}

const site = "http://a.example/"

// open opens a frontier, with one seed if it is new.
func open(t *testing.T, dir string, o Options) *Frontier {
	t.Helper()
	f, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	o.Rule = canonical.Rule{Form: canonical.Crawl}
	if f.Setting() == nil {
		if err := f.Begin(t.Context(), []byte("{}"), []Target{{site, "a.example"}}, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range o.Outputs {
		out.(*lines).cut(f.Committed(out.Name()))
	}
	if err := f.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return f
}

func link(uri string) Link {
	host, _, _ := strings.Cut(strings.TrimPrefix(uri, "http://"), "/")
	return Link{URI: uri, Host: host, Queue: true}
}

// tree is a page with links to three deeper ones, alternating between two hosts.
func tree(uri string) Result {
	sum := sha256.Sum256([]byte(uri))
	r := Result{Page: &Page{File: uri, Hash: sum[:], Size: 1}}
	path := strings.SplitN(uri, "/", 4)[3]
	for i := range 3 {
		host := []string{"a.example", "b.example"}[(len(path)+i)%2]
		r.Links = append(r.Links, link(fmt.Sprintf("http://%s/%s%d", host, path, i)))
	}
	r.Links = append(r.Links, link(site))
	return r
}

// crawl leases and settles until all is done.
func crawl(t *testing.T, f *Frontier, threads int, fetch func(*Lease) Result) {
	t.Helper()
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for {
				l, err := f.Lease(t.Context())
				if errors.Is(err, ErrDone) {
					return
				}
				if err == nil {
					_, err = f.Settle(l, fetch(l))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestBreadthFirst(t *testing.T) {
	t.Parallel()
	out := &lines{}
	f := open(t, t.TempDir(), Options{MaxPages: 30, MaxDepth: -1, Strict: true, Outputs: []Output{out}})
	crawl(t, f, 1, func(l *Lease) Result { return tree(l.URI) })
	var want []string // by depth, then as they were found
	queue := []string{site + " 0 "}
	for len(want) < 30 {
		one := queue[0]
		want, queue = append(want, one), queue[1:]
		uri, _, _ := strings.Cut(one, " ")
		var depth int
		_, _ = fmt.Sscanf(one, uri+" %d", &depth)
		for _, l := range tree(uri).Links[:3] {
			queue = append(queue, fmt.Sprintf("%s %d %s", l.URI, depth+1, uri))
		}
	}
	if !slices.Equal(out.all, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(out.all, "\n"), strings.Join(want, "\n"))
	}
	if c := f.Counts(); c.Stored != 30 || c.Edges != 120 || c.Queued != 61 {
		t.Errorf("counts: %+v", c)
	}
}

// However many threads run and fail, exactly as many pages are stored as wanted, each once.
func TestExactCount(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 7, 32} {
		out := &lines{}
		f := open(t, t.TempDir(), Options{MaxPages: 200, MaxDepth: -1, Attempts: 2, Outputs: []Output{out}})
		crawl(t, f, threads, func(l *Lease) Result {
			if strings.HasSuffix(l.URI, "1") && (l.Attempts == 0 || strings.HasSuffix(l.URI, "11")) {
				return Result{Failure: &Failure{Reason: "broken"}}
			}
			return tree(l.URI)
		})
		slices.Sort(out.all)
		if n := len(slices.Compact(slices.Clone(out.all))); len(out.all) != 200 || n != 200 {
			t.Errorf("%d threads: %d pages, %d different ones, want 200", threads, len(out.all), n)
		}
		c := f.Counts()
		if c.Stored != 200 || c.Failed == 0 || c.Reasons["broken"] != c.Failed || c.Retried < c.Failed {
			t.Errorf("%d threads: %+v", threads, c)
		}
		var states int64
		if err := f.read.QueryRow("SELECT count(*) FROM uris WHERE state < 2").Scan(&states); err != nil || states != c.Queued {
			t.Errorf("%d threads: %d rows are queued, counted %d (%v)", threads, states, c.Queued, err)
		}
	}
}

// A crawl ends when nothing is left, with the pages that it has.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{1, 8} {
		f := open(t, t.TempDir(), Options{MaxPages: 1000, MaxDepth: 3})
		crawl(t, f, threads, func(l *Lease) Result { return tree(l.URI) })
		if c := f.Counts(); c.Stored != 1+3+9+27 || c.Queued != 0 || c.Skipped["depth"] != 81 {
			t.Errorf("%d threads: %+v", threads, c)
		}
	}
}

// URIs that were leased but not settled are still queued, wherever the process may end.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	whole := &lines{}
	options := func(out *lines) Options {
		return Options{MaxPages: 40, MaxDepth: -1, Attempts: 2, Strict: true, Outputs: []Output{out}}
	}
	fetch := func(l *Lease) Result {
		if strings.HasSuffix(l.URI, "2") && l.Attempts == 0 {
			return Result{Failure: &Failure{Reason: "once"}}
		}
		return tree(l.URI)
	}
	crawl(t, open(t, t.TempDir(), options(whole)), 1, fetch)
	dir, out := t.TempDir(), &lines{}
	for range 100 {
		f := open(t, dir, options(out))
		for range 3 {
			l, err := f.Lease(t.Context())
			if errors.Is(err, ErrDone) {
				if !slices.Equal(out.all, whole.all) {
					t.Errorf("stored\n%s\nwant\n%s", strings.Join(out.all, "\n"), strings.Join(whole.all, "\n"))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Settle(l, fetch(l)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.Lease(t.Context()); err != nil && !errors.Is(err, ErrDone) { // the lease is lost
			t.Fatal(err)
		}
		out.all = append(out.all, "not committed")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("it has no end")
}

func TestClaims(t *testing.T) {
	t.Parallel()
	out := &lines{}
	f := open(t, t.TempDir(), Options{MaxPages: 10, MaxDepth: -1, Attempts: 2, Outputs: []Output{out}})
	lease := func(want string) *Lease {
		t.Helper()
		l, err := f.Lease(t.Context())
		if err != nil || l.URI != want {
			t.Fatalf("leased %+v, %v, want %s", l, err, want)
		}
		return l
	}
	settle := func(l *Lease, r Result) *Outcome {
		t.Helper()
		o, err := f.Settle(l, r)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	claim := func(l *Lease, uri string, want bool) {
		t.Helper()
		if ok, err := f.Claim(t.Context(), l, uri, "a.example"); err != nil || ok != want {
			t.Errorf("claim %s: %v, %v, want %v", uri, ok, err, want)
		}
	}
	page := func(name string) *Page { return &Page{File: name, Hash: []byte(name)} }
	seed := lease(site)
	r := Result{Page: page("seed")}
	for i := range 6 {
		r.Links = append(r.Links, link(fmt.Sprint(site, i)))
	}
	settle(seed, r)
	one := lease(site + "0")
	claim(one, site+"0#again", true)
	claim(one, site, false)    // stored
	claim(one, site+"2", true) // queued
	claim(one, site+"2", true)
	two := lease(site + "1")
	claim(two, site+"0", false) // leased
	claim(two, site+"2", false) // claimed
	three := lease(site + "3")  // 2 is taken
	// The page of 0 is that of 2, which is no longer fetched.
	o := settle(one, Result{Page: page("2"), Redirects: []Target{{site + "2", "a.example"}}})
	if !o.Stored || o.URI != site+"2" {
		t.Errorf("redirected: %+v", o)
	}
	// 1 leads to a page that was seen.
	if o := settle(two, Result{Redirects: []Target{{site + "2", "a.example"}}}); o.Stored {
		t.Errorf("redirected to what is seen: %+v", o)
	}
	// 3 claims 4, and fails: 4 is fetched separately, and before 5.
	claim(three, site+"4", true)
	settle(three, Result{Failure: &Failure{Reason: "broken", Permanent: true}})
	four := lease(site + "4")
	// A failed URI that waits can be claimed by a redirect, and is stored once.
	settle(four, Result{Failure: &Failure{Reason: "later"}})
	five := lease(site + "5")
	claim(five, site+"4", true)
	settle(five, Result{Page: page("4"), Redirects: []Target{{site + "x", "a.example"}, {site + "4", "a.example"}}})
	if l, err := f.Lease(t.Context()); !errors.Is(err, ErrDone) {
		t.Errorf("%+v, %v: want the end", l, err)
	}
	if c := f.Counts(); c.Stored != 3 || c.Redirected != 3 || c.Failed != 1 || c.Queued != 0 {
		t.Errorf("counts: %+v", c)
	}
	if got := strings.Join(out.all, ","); got != site+" 0 ,"+site+"2 1 "+site+","+site+"4 1 "+site {
		t.Errorf("stored %s", got)
	}
}

// A URI that has failed for good and is stored after all, as the target of a redirect, is no longer among the failed ones.
func TestFailedTargetOfARedirect(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir(), Options{MaxPages: 10, MaxDepth: -1, Attempts: 1})
	for i, r := range []Result{
		{Page: &Page{File: "seed", Hash: []byte("seed")}, Links: []Link{link(site + "0"), link(site + "1"), link(site + "2")}},
		{Failure: &Failure{Reason: "broken", Permanent: true}},
		{Failure: &Failure{Reason: "broken", Permanent: true}},
		{Page: &Page{File: "0", Hash: []byte("0")}, Redirects: []Target{{site + "0", "a.example"}}},
	} {
		l, err := f.Lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range r.Redirects {
			if ok, err := f.Claim(t.Context(), l, to.URI, to.Host); err != nil || !ok {
				t.Fatalf("claim %s: %v, %v", to.URI, ok, err)
			}
		}
		if _, err := f.Settle(l, r); err != nil {
			t.Fatal(err)
		}
		c := f.Counts()
		if want := int64([]int{0, 1, 2, 1}[i]); c.Failed != want || c.Reasons["broken"] != want {
			t.Errorf("after %d: %d have failed, by these reasons: %v", i, c.Failed, c.Reasons)
		}
	}
}

// set is a filter that has a set of URIs.
type set struct {
	mu    sync.Mutex
	has   map[string]bool
	tells int
}

func (s *set) Check(_ context.Context, uris []string) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := make([]bool, len(uris))
	for i, uri := range uris {
		news[i] = !s.has[uri]
	}
	return news, nil
}

func (s *set) Remember(_ context.Context, uris []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range uris {
		s.has[uri] = true
		s.tells++
	}
	return nil
}

// URIs that a filter has seen but the crawl has not: with its own filter that is a harmless error,
// with a shared one another crawl has the page. Seeds are crawled whatever the filter says.
func TestFilter(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		filter := &set{has: map[string]bool{tree(site).Links[0].URI: true, site: true}}
		f := open(t, t.TempDir(), Options{MaxPages: 1000, MaxDepth: 2, Filter: filter, Shared: shared})
		crawl(t, f, 4, func(l *Lease) Result { return tree(l.URI) })
		want := Counts{Stored: 13, FalsePositives: 1}
		if shared { // without the page and its three links
			want = Counts{Stored: 9, Elsewhere: 1}
		}
		if c := f.Counts(); c.Stored != want.Stored || c.FalsePositives != want.FalsePositives || c.Elsewhere != want.Elsewhere {
			t.Errorf("shared %v: %+v, want %+v", shared, c, want)
		}
	}
}

// If a filter has missed committed URIs, it gets them at the next start.
func TestFilterIsToldLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir, Options{MaxPages: 10, MaxDepth: -1})
	crawl(t, f, 2, func(l *Lease) Result { return tree(l.URI) })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	filter := &set{has: map[string]bool{}}
	f = open(t, dir, Options{MaxPages: 11, MaxDepth: -1, Filter: filter})
	if n := len(filter.has); n != 31 || filter.tells != 31 {
		t.Errorf("told %d URIs %d times, want 31", n, filter.tells)
	}
	crawl(t, f, 2, func(l *Lease) Result { return tree(l.URI) })
	if c := f.Counts(); c.FalsePositives != 0 || c.Stored != 11 || len(filter.has) != 34 {
		t.Errorf("%+v, told %d", c, len(filter.has))
	}
}

// An output that cannot be synced ends the crawl; nothing of that transaction is committed.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), &lines{}
	f := open(t, dir, Options{MaxPages: 10, MaxDepth: -1, Outputs: []Output{out}})
	l, err := f.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out.sync = errors.New("the disk is gone")
	if _, err := f.Settle(l, tree(l.URI)); !errors.Is(err, out.sync) {
		t.Errorf("got %v", err)
	}
	if _, err := f.Lease(t.Context()); !errors.Is(err, out.sync) {
		t.Errorf("a lease after it: %v", err)
	}
	_ = f.Close()
	out.sync = nil
	f = open(t, dir, Options{MaxPages: 10, MaxDepth: -1, Outputs: []Output{out}})
	crawl(t, f, 1, func(l *Lease) Result { return tree(l.URI) })
	if len(out.all) != 10 {
		t.Errorf("%d pages, want 10", len(out.all))
	}
}

func TestFolderIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, Options{MaxPages: 1})
	var inUse *disk.InUseError
	if _, err := Open(t.Context(), dir); !errors.As(err, &inUse) {
		t.Errorf("got %v, want an InUseError", err)
	}
	other := filepath.Join(t.TempDir(), databaseName)
	db, err := sqlitefile.Connect(other, 1)
	if err == nil {
		_, err = db.Exec("CREATE TABLE x (y)")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Dir(other)); err == nil || !strings.Contains(err.Error(), "is not the database of a crawl") {
		t.Errorf("another database: %v", err)
	}
}

// Requests to one host are a delay apart; requests to others do not wait for it.
func TestDelay(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	f := open(t, t.TempDir(), Options{MaxPages: 12, MaxDepth: -1, Delay: delay})
	var mu sync.Mutex
	visits := map[string][]time.Time{}
	began := time.Now()
	crawl(t, f, 8, func(l *Lease) Result {
		mu.Lock()
		defer mu.Unlock()
		visits[l.Host] = append(visits[l.Host], time.Now())
		return tree(l.URI)
	})
	for host, times := range visits {
		slices.SortFunc(times, time.Time.Compare)
		for i, at := range times { // a thread may come late to its turn, but not early
			if gap := at.Sub(began); gap < time.Duration(i)*delay {
				t.Errorf("%s: visit %d came %s after the beginning", host, i, gap)
			}
		}
	}
	if len(visits) != 2 {
		t.Errorf("%d hosts, want 2", len(visits))
	}
}

// Of the delays that the ports of a host want the longest counts, whichever came last.
func TestDelaysOfPorts(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir(), Options{MaxPages: 12, MaxDepth: -1, Delay: time.Second})
	for _, c := range []struct {
		origin      string
		delay, want time.Duration
	}{
		{"https://a.example", 10 * time.Second, 10 * time.Second},
		{"http://a.example", 2 * time.Second, 10 * time.Second},
		{"https://a.example", 5 * time.Second, 5 * time.Second},
		{"https://a.example", 0, 2 * time.Second},
		{"http://a.example", 0, time.Second},
	} {
		if f.Delay("a.example", c.origin, c.delay); f.hostNamed("a.example").delay != c.want {
			t.Errorf("%s wants %s: a delay of %s, want %s", c.origin, c.delay, f.hostNamed("a.example").delay, c.want)
		}
	}
}

// Redirects to another host wait for a place there, before the URIs of that host. They have left their own host, so that
// two hosts that redirect to each other go on.
func TestRedirectsWaitForAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, t.TempDir(), Options{MaxPages: 100, MaxDepth: 1, PerHost: 1})
		lease := func() *Lease {
			t.Helper()
			l, err := f.Lease(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		settle := func(l *Lease, r Result) {
			t.Helper()
			if _, err := f.Settle(l, r); err != nil {
				t.Fatal(err)
			}
		}
		page := tree(site)
		page.Links = []Link{link("http://a.example/1"), link("http://b.example/1"), link("http://a.example/2"), link("http://b.example/2")}
		settle(lease(), page)
		a1, b1 := lease(), lease()
		claimed := make(chan string, 2)
		claim := func(l *Lease, host string) {
			if ok, err := f.Claim(t.Context(), l, "http://"+host+"/to", host); err != nil || !ok {
				t.Errorf("%s: %v, %v", host, ok, err)
			}
			claimed <- host
		}
		go claim(a1, "b.example")
		synctest.Wait()
		select {
		case host := <-claimed:
			t.Errorf("a second request to %s at once", host)
		default:
		}
		f.mu.Lock()
		b := f.hostNamed("b.example")
		b.inflight--
		if f.place(b); b.in != nil {
			t.Error("a URI of b.example would be leased before it")
		}
		b.inflight++
		f.mu.Unlock()
		a2 := lease() // the place that a1 has left
		if a2.URI != "http://a.example/2" {
			t.Errorf("leased %s", a2.URI)
		}
		go claim(b1, "a.example")
		if host := <-claimed; host != "b.example" { // b1 has left it, and b.example/2 has waited longer
			t.Errorf("%s has a place first", host)
		}
		settle(a2, tree(a2.URI))
		if host := <-claimed; host != "a.example" {
			t.Errorf("%s has a place next", host)
		}
		settle(a1, Result{Redirects: []Target{{"http://b.example/to", "b.example"}}, Page: &Page{File: "b", Hash: []byte("b")}})
		b2 := lease()
		if b2.URI != "http://b.example/2" {
			t.Errorf("leased %s", b2.URI)
		}
		f.Abandon(b1)
		for _, h := range f.hosts {
			if want := map[string]int{"b.example": 1}[h.name]; h.inflight != want || h.coming != 0 {
				t.Errorf("%s: %d requests, %d to come", h.name, h.inflight, h.coming)
			}
		}
		settle(b2, tree(b2.URI))
		// One that waits for a place gives up with its context.
		b1 = lease()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.hostNamed("a.example").inflight++
		if _, err := f.Claim(ctx, b1, "http://a.example/to", "a.example"); !errors.Is(err, context.Canceled) {
			t.Errorf("it waited on: %v", err)
		}
		f.Abandon(b1)
		if a, b := f.hostNamed("a.example"), f.hostNamed("b.example"); a.inflight != 1 || a.coming != 0 || b.inflight != 0 {
			t.Errorf("%d requests to a, %d to come, %d to b", a.inflight, a.coming, b.inflight)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A turn that is waited for is none any more when the host is to be left alone.
func TestHoldWhileATurnIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := open(t, t.TempDir(), Options{MaxPages: 12, MaxDepth: -1, Delay: time.Minute})
		began := time.Now()
		var all sync.WaitGroup
		for _, want := range []time.Duration{0, 10 * time.Minute, 11 * time.Minute} {
			all.Go(func() {
				if err := f.Turn(t.Context(), "a.example"); err != nil {
					t.Error(err)
				}
				if got := time.Since(began); got != want {
					t.Errorf("a turn after %s, want %s", got, want)
				}
			})
			synctest.Wait()
		}
		f.Hold("a.example", 10*time.Minute)
		all.Wait()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A host that asked to be left alone is left alone by the next process, too, but no longer than a pause may be, whatever the
// clock showed before.
func TestHoldIsKept(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, 10_000 * time.Hour: LongestPause} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir, Options{MaxPages: 12, MaxDepth: -1, Attempts: 2, Now: func() time.Time { return time.Now().Add(ahead) }})
			l, err := f.Lease(t.Context())
			if err == nil {
				f.Hold(l.Host, 5*time.Minute)
				_, err = f.Settle(l, Result{Failure: &Failure{Reason: "busy", After: 2 * time.Minute}})
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			f = open(t, dir, Options{MaxPages: 12, MaxDepth: -1})
			began := time.Now()
			if l, err = f.Lease(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("%v after %s, want %s", err, time.Since(began), want)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pause is saved with the outcome of the request that was told of it, if only a redirect led to the host, and
// also if the URI stays queued.
func TestHoldIsSavedAtOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *Frontier, l *Lease) error{
		"b.example": func(f *Frontier, l *Lease) error {
			_, err := f.Settle(l, Result{Failure: &Failure{Reason: "busy", After: time.Minute}, Redirects: []Target{{"http://b.example/", "b.example"}}})
			return err
		},
		"a.example": func(f *Frontier, l *Lease) error {
			f.Postpone(l, time.Minute, false)
			return nil
		},
	} {
		dir := t.TempDir()
		f := open(t, dir, Options{MaxPages: 12, MaxDepth: -1, Attempts: 2})
		l, err := f.Lease(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.Hold(name, 5*time.Minute)
		if err := end(f, l); err != nil {
			t.Fatal(err)
		}
		held := int64(0)
		err = f.read.QueryRowContext(t.Context(), "SELECT held_until FROM hosts WHERE name = ?", name).Scan(&held) // as after a kill
		if left := time.Until(time.UnixMilli(held)); err != nil || left < 4*time.Minute {
			t.Errorf("%s: held for %s, %v", name, left, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		f = open(t, dir, Options{MaxPages: 12, MaxDepth: -1})
		if held := f.hostNamed(name).held; time.Until(held) < 4*time.Minute {
			t.Errorf("%s: the next process leaves it alone until %s", name, held)
		}
	}
}

// The database of an earlier version, which knew no such pauses, is read.
func TestDatabaseWithoutHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := Options{MaxPages: 12, MaxDepth: -1}
	if err := open(t, dir, options).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlitefile.Connect(filepath.Join(dir, databaseName), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "ALTER TABLE hosts DROP COLUMN held_until")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	crawl(t, open(t, dir, options), 1, func(l *Lease) Result { return tree(l.URI) })
}

// While a port is tried again, the others of its host are called; one thread keeps to the order.
func TestOriginThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for strict, want := range map[bool]string{
		false: "0s http://a.example/, 1s https://a.example/0, 2s http://a.example/1, 3s http://a.example/2, 31s https://a.example/0, 32s https://a.example/3",
		true:  "0s http://a.example/, 1s https://a.example/0, 31s https://a.example/0, 32s http://a.example/1, 33s http://a.example/2, 34s https://a.example/3",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := open(t, t.TempDir(), Options{MaxPages: 100, MaxDepth: 1, Attempts: 2, Strict: strict, Delay: time.Second})
			page := tree(site)
			page.Links = []Link{{URI: "https://a.example/0", Host: "a.example", Queue: true}, link(site + "1"), link(site + "2"), {URI: "https://a.example/3", Host: "a.example", Queue: true}}
			began, tried := time.Now(), false
			var calls []string
			for {
				l, err := f.Lease(t.Context())
				if errors.Is(err, ErrDone) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, fmt.Sprint(time.Since(began), " ", l.URI))
				switch {
				case l.URI == site:
					_, err = f.Settle(l, page)
				case !tried && l.Origin() == "https://a.example":
					tried = true
					f.Postpone(l, 30*time.Second, false)
				default:
					_, err = f.Settle(l, tree(l.URI))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Join(calls, ", "); got != want {
				t.Errorf("strict %v: got %s, want %s", strict, got, want)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What cannot be had on one port of a host keeps nothing from being fetched on another, however much it is.
func TestOriginThatIsAway(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := open(t, t.TempDir(), Options{MaxPages: 100, MaxDepth: 1, Attempts: 2, Strict: strict, Delay: time.Second})
			page := tree(site)
			page.Links = nil
			for i := range 2500 {
				page.Links = append(page.Links, Link{URI: fmt.Sprintf("https://a.example/%d", i), Host: "a.example", Queue: true})
			}
			for i := range 40 {
				page.Links = append(page.Links, link(fmt.Sprintf("%s%d", site, i)))
			}
			began, tries := time.Now(), 0
			for want := range 2 {
				for {
					l, err := f.Lease(t.Context())
					if errors.Is(err, ErrDone) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					r := tree(l.URI)
					switch {
					case l.URI == site:
						r = page
					case l.Origin() == "http://a.example":
					case tries == 0: // has an attempt behind it when the origin goes away
						tries++
						r = Result{Failure: &Failure{Reason: "lost"}}
					default:
						tries++
						f.Postpone(l, LongestPause, true)
						continue
					}
					if _, err := f.Settle(l, r); err != nil {
						t.Fatal(err)
					}
				}
				if c := f.Counts(); c.Stored != 41 || c.Queued != 2500 || tries != 2+want || time.Since(began) > time.Duration(want)*LongestPause+time.Minute {
					t.Errorf("strict %v, %d: %d tries, %+v", strict, want, tries, c)
				}
				time.Sleep(LongestPause)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
