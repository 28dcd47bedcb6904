package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pipes"
)

// world is a store, a dispatcher, workers, and an HTTP server that plays all hosts. Connections are
// pipes, so that it runs by the clock of a synctest bubble: gaps that the server sees are exact.
type world struct {
	t        *testing.T
	store    *sqlite.Store
	listener *pipes.Listener
	client   *http.Client
	dispatch *dispatch.Dispatcher

	mu      sync.Mutex
	hosts   map[string]*seen
	asked   map[string]int           // requests, by URI
	workers map[*Worker]func(string) // called when the dispatcher has handed out
}

// seen is what the server has seen of one host.
type seen struct {
	last          time.Time
	least         time.Duration // between two requests
	running, most int
}

// newWorld makes a world. It must be called in the bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, listener: pipes.Listen(),
		hosts: map[string]*seen{}, asked: map[string]int{}, workers: map[*Worker]func(string){}}
	var err error
	if w.store, err = sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	server.Listener = w.listener
	server.Start()
	transport := &http.Transport{DialContext: w.listener.Dial, MaxIdleConnsPerHost: 10}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.dispatch = dispatch.New(dispatch.Options{Store: w.store, Owner: "dispatcher", Every: time.Minute, SweepEvery: 5 * time.Second, HandedOut: w.wake})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.dispatch.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
		server.Close()
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for worker := range w.workers {
		worker.Wake()
	}
}

// serve answers after 20 ms as the path asks: /ok/..., /404/..., /500/... always, /fail2/... twice 503,
// /after/... first 429 with Retry-After: 30, /hang/... never.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	uri := "http://" + r.Host + r.URL.Path
	now := time.Now()
	w.mu.Lock()
	w.asked[uri]++
	n := w.asked[uri]
	h := w.hosts[r.Host]
	if h == nil {
		h = &seen{least: time.Hour}
		w.hosts[r.Host] = h
	} else {
		h.least = min(h.least, now.Sub(h.last))
	}
	h.last = now
	h.running++
	h.most = max(h.most, h.running)
	w.mu.Unlock()
	kind := strings.Split(r.URL.Path, "/")[1]
	if kind == "hang" {
		<-r.Context().Done()
	} else {
		time.Sleep(20 * time.Millisecond)
	}
	w.mu.Lock()
	h.running--
	w.mu.Unlock()
	status := http.StatusOK
	switch {
	case kind == "404" || kind == "500":
		status, _ = strconv.Atoi(kind)
	case kind == "fail2" && n <= 2:
		status = http.StatusServiceUnavailable
	case kind == "after" && n == 1:
		status = http.StatusTooManyRequests
		rw.Header().Set("Retry-After", "30")
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, "body of "+uri)
}

// Download is the engine of the tests: one GET over a pipe. Paths of /panic/ panic.
func (w *world) Download(ctx context.Context, work Work) (Page, error) {
	if strings.Contains(work.Task.URI, "/panic/") {
		panic("as asked")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, work.Task.URI, nil)
	if err != nil {
		return Page{}, err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return Page{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return Page{}, err
	}
	if answer.StatusCode >= 400 {
		after, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return Page{}, &Failure{Reason: answer.Status, Status: answer.StatusCode, Permanent: answer.StatusCode == 404,
			Crowded: answer.StatusCode == 429 || answer.StatusCode == 503, After: time.Duration(after) * time.Second}
	}
	return Page{Result: download.Result{URI: work.Task.URI, Status: answer.StatusCode, Header: answer.Header}, Body: &text{Reader: strings.NewReader(string(body))}}, nil
}

type text struct{ *strings.Reader }

func (*text) Close() error { return nil }

// job adds a job that is on.
func (w *world) job(name string, s download.Setting) download.Job {
	w.t.Helper()
	s.Engine, s.Timeout = "test", time.Minute
	if s.Lane == "" {
		s.Lane = download.Normal
	}
	j, err := w.store.AddJob(w.t.Context(), download.Job{Name: name, On: true, Setting: s})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// add adds tasks to a job, and wakes the dispatcher.
func (w *world) add(j download.Job, uris ...string) {
	w.t.Helper()
	var tasks []download.NewTask
	for _, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil {
			w.t.Fatal(err)
		}
		tasks = append(tasks, download.NewTask{URI: uri, Shard: download.ShardOf(u.Hostname())})
	}
	if n, err := w.store.AddTasks(w.t.Context(), j.ID, tasks); err != nil || n != len(uris) {
		w.t.Fatalf("%d of %d added, %v", n, len(uris), err)
	}
	w.dispatch.Wake()
}

// start runs a worker. The returned function stops it, and waits until it has ended.
func (w *world) start(opt Options) (*Worker, func()) {
	w.t.Helper()
	if opt.Store == nil {
		opt.Store = w.store
	}
	if opt.Engines == nil {
		opt.Engines = map[string]Engine{"test": w}
	}
	opt.HostName = "host of " + opt.Owner
	opt.Idle = w.dispatch.Wake
	worker := New(opt)
	w.mu.Lock()
	w.workers[worker] = nil
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		worker.Run(ctx)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(stop)
	return worker, stop
}

// counts returns the tasks of a job by state.
func (w *world) counts(j download.Job) map[download.State]int {
	w.t.Helper()
	counts, err := w.store.Counts(w.t.Context(), j.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return counts
}

// until lets the bubble's time run until so returns true. It notices that at most a tenth of that time, or 10 s, late.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	for began := time.Now(); !so(); time.Sleep(min(10*time.Second, 20*time.Millisecond+time.Since(began)/10)) {
		if time.Since(began) > time.Hour {
			w.t.Fatalf("%s: not within an hour", what)
		}
	}
}

// ends waits until n tasks of a job are done or have failed.
func (w *world) ends(j download.Job, n int) {
	w.t.Helper()
	w.until(fmt.Sprint(n, " tasks end"), func() bool {
		counts := w.counts(j)
		return counts[download.Done]+counts[download.Failed] == n
	})
}

// polite compares what the server has seen with what the job asked for.
func (w *world) polite(delay time.Duration, concurrency int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, h := range w.hosts {
		if h.least < delay || h.most > concurrency {
			w.t.Errorf("%s: a gap of %v, %d at once; want %v and %d", name, h.least, h.most, delay, concurrency)
		}
	}
}

// tasks returns the tasks of a job by URI.
func (w *world) tasks(j download.Job) map[string]download.Task {
	w.t.Helper()
	all := map[string]download.Task{}
	if err := w.store.ListTasks(w.t.Context(), download.Query{Job: j.ID}, func(t download.Task) error { all[t.URI] = t; return nil }); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// consistent checks that each task that is done has one result with the right body, that each
// failed task has a reason and no result, and that each attempt has a log.
func (w *world) consistent(j download.Job) {
	w.t.Helper()
	data, logs := map[string]int{}, map[string]int{}
	err := errors.Join(
		w.store.ListData(w.t.Context(), download.Query{Job: j.ID}, func(d download.Data) error {
			data[d.TaskURI]++
			body, err := w.store.Body(w.t.Context(), d.Task)
			if err != nil {
				return err
			}
			defer body.Close()
			got, err := io.ReadAll(body)
			if want := "body of " + d.TaskURI; string(got) != want {
				w.t.Errorf("%s: body %q", d.TaskURI, got)
			}
			return err
		}),
		w.store.ListLogs(w.t.Context(), download.Query{Job: j.ID}, func(l download.Log) error { logs[l.TaskURI]++; return nil }))
	if err != nil {
		w.t.Fatal(err)
	}
	for uri, task := range w.tasks(j) {
		want := 0
		switch task.State {
		case download.Done:
			want = 1
		case download.Failed:
			if task.Reason == "" {
				w.t.Errorf("%s failed without a reason", uri)
			}
		default:
			w.t.Errorf("%s is %s", uri, task.State)
		}
		if data[uri] != want {
			w.t.Errorf("%s is %s and has %d results", uri, task.State, data[uri])
		}
		if logs[uri] != task.Attempts+task.Abandoned || task.Attempts == 0 {
			w.t.Errorf("%s: %d logs of %d attempts and %d abandoned leases", uri, logs[uri], task.Attempts, task.Abandoned)
		}
	}
}

// severed is a store that no longer answers once it is cut, as for a worker that is dead or
// behind a broken network.
type severed struct {
	download.Store
	cut atomic.Bool
}

var errSevered = errors.New("the store does not answer")

func (s *severed) Now(ctx context.Context) (time.Time, error) {
	if s.cut.Load() {
		return time.Time{}, errSevered
	}
	return s.Store.Now(ctx)
}

func (s *severed) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	if s.cut.Load() {
		return nil, errSevered
	}
	return s.Store.Hold(ctx, owner, names, ttl)
}

func (s *severed) LetGo(ctx context.Context, owner string, names []string) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.Store.LetGo(ctx, owner, names)
}

func (s *severed) Lease(ctx context.Context, want download.Want) ([]download.Lease, error) {
	if s.cut.Load() {
		return nil, errSevered
	}
	return s.Store.Lease(ctx, want)
}

func (s *severed) Renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) ([]string, error) {
	if s.cut.Load() {
		return nil, errSevered
	}
	return s.Store.Renew(ctx, owner, leases, ttl)
}

func (s *severed) GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.Store.GiveBack(ctx, l, notBefore)
}

func (s *severed) Finish(ctx context.Context, l download.Lease, r download.Result, a download.Attempt) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.Store.Finish(ctx, l, r, a)
}

func (s *severed) Fail(ctx context.Context, l download.Lease, a download.Attempt, retry time.Time) error {
	if s.cut.Load() {
		return errSevered
	}
	return s.Store.Fail(ctx, l, a, retry)
}
