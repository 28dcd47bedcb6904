package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
)

// rig is a master with a separate store and filters.
type rig struct {
	t     *testing.T
	store download.Store
	url   string
	woken atomic.Int64

	master *Master
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	return newRigAt(t, nil, change...)
}

// newRigAt is newRig with a clock for the store, nil for the system's.
func newRigAt(t *testing.T, clock func() time.Time, change ...func(*Options)) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir(), clock, change...)
}

// newRigIn is newRigAt in a folder.
func newRigIn(t *testing.T, dir string, clock func() time.Time, change ...func(*Options)) *rig {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Dir: filepath.Join(dir, "store"), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	filter, err := seen.Open(t.Context(), filepath.Join(dir, "filter"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := filter.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, store: store}
	o := Options{
		Store: store, Filter: filter, Intake: intake.New(store, filter, ""), Added: func() { r.woken.Add(1) }, JobBytes: 64 << 10, BodyTimeout: time.Minute,
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	}
	for _, f := range change {
		f(&o)
	}
	r.master = New(o)
	server := httptest.NewServer(r.master)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// do calls the master, and returns status and body. Headers come in pairs.
func (r *rig) do(method, path, body string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := asDescribed(req, resp, text); err != nil {
		r.t.Errorf("%s %s: answer is not as openapi.yaml says: %v", method, path, err)
	}
	return resp.StatusCode, string(text)
}

// want calls the master, and wants a status and a text in the body.
func (r *rig) want(status int, text, method, path, body string, headers ...string) {
	r.t.Helper()
	if code, got := r.do(method, path, body, headers...); code != status || !strings.Contains(got, text) {
		r.t.Errorf("%s %s: %d %s, want %d and %q", method, path, code, got, status, text)
	}
}

func TestTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(200, `"uris":2`, "POST", "/api/v1/check", "name: news\nuris: [http://a.example/, http://b.example/]")
	r.want(404, `"error_code":"unknown_job"`, "GET", "/api/v1/jobs/news", "")
	r.want(201, `"uris":{"total":2,"added":2,"seen":0,"known":0}`, "POST", "/api/v1/jobs", "name: news\nfilter: uri_download\nuris: [http://a.example/, http://b.example/]")
	if n := r.woken.Load(); n != 1 {
		t.Errorf("the dispatcher was woken %d times", n)
	}
	r.want(409, "job_exists", "POST", "/api/v1/jobs", "name: news")
	r.want(200, `"tasks":{"done":0,"failed":0,"ready":0,"running":0,"waiting":2}`, "GET", "/api/v1/jobs/news", "")
	r.want(200, `{"total":3,"added":1,"seen":2,"known":0}`, "POST", "/api/v1/jobs/news/uris", "http://a.example/\n\nhttp://b.example/\r\nhttp://c.example/\n", "Content-Type", "text/plain")
	// Another job with the same filter gets none of them; one without a filter gets them all.
	r.want(201, `"added":1,"seen":2`, "POST", "/api/v1/jobs", `{"name":"other","filter":"uri_download","uris":["http://a.example/","http://c.example/","http://d.example/"]}`)
	r.want(201, `"added":1,"seen":0,"known":0`, "POST", "/api/v1/jobs", `{"name":"third","uris":["http://a.example/"]}`)
	r.want(200, `{"total":2,"added":1,"seen":0,"known":1}`, "POST", "/api/v1/jobs/third/uris", `"http://a.example/"`+"\n"+`"http://e.example/"`, "Content-Type", "application/x-ndjson")
	r.want(200, `"version":2`, "PUT", "/api/v1/jobs/third", "name: third\nsetting: {delay: 5s}")
	r.want(200, `"status":"off"`, "POST", "/api/v1/jobs/third/pause", "")
	r.want(200, `"status":"on"`, "POST", "/api/v1/jobs/third/resume", "")
	_, text := r.do("GET", "/api/v1/jobs", "")
	var list struct{ Jobs []struct{ Name string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil || fmt.Sprint(list.Jobs) != "[{news} {other} {third}]" {
		t.Errorf("jobs: %s, %v", text, err)
	}
	if _, text := r.do("GET", "/api/v1/jobs/news/tasks?state=waiting", ""); strings.Count(text, "\n") != 3 || !strings.Contains(text, `"uri":"http://c.example/"`) {
		t.Errorf("tasks: %s", text)
	}
	r.want(400, "confirm_required", "DELETE", "/api/v1/jobs/third", "")
	r.want(204, "", "DELETE", "/api/v1/jobs/third?confirm=third", "")
	r.want(404, "unknown_job", "GET", "/api/v1/jobs/third/tasks", "")
}

// What a worker stores can be read, and browsers do not render a body.
func TestRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "", "POST", "/api/v1/jobs", "name: news\nuris: [http://a.example/, http://b.example/]")
	j, err := r.store.Job(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.HandOut(t.Context(), j.ID, 2, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	all := make([]int, download.Shards)
	for i := range all {
		all[i] = i
	}
	leases, err := r.store.Lease(t.Context(), download.Want{Owner: "w", Max: 2, For: time.Hour, Shards: all, Lanes: download.Lanes()})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%+v, %v", leases, err)
	}
	done, failed := leases[0].Task, leases[1].Task
	if err := r.store.Finish(t.Context(), leases[0], download.Result{URI: done.URI, Status: 200, ContentType: "text/html", Body: strings.NewReader("<script>")}, download.Attempt{Status: 200, HostName: "h", Spent: time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Fail(t.Context(), leases[1], download.Attempt{Status: 404, Reason: "not found", HostName: "h"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	r.want(200, `"size":8`, "GET", "/api/v1/jobs/news/data", "")
	r.want(200, `"spend_time_us":1000000`, "GET", "/api/v1/jobs/news/logs?task="+done.ID, "")
	r.want(200, `"failed_reason":"not found"`, "GET", "/api/v1/jobs/news/tasks?state=failed", "")
	r.want(404, "no_data", "GET", "/api/v1/jobs/news/data/"+failed.ID, "")
	resp, err := http.Get(r.url + "/api/v1/jobs/news/data/" + done.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "<script>" || resp.Header.Get("Content-Type") != "application/octet-stream" || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
		resp.Header.Get("Content-Disposition") != "attachment" {
		t.Errorf("%q, %v, %v", body, resp.Header, err)
	}
	// A task of another job is not found in this one.
	r.want(201, "", "POST", "/api/v1/jobs", "name: other")
	r.want(404, "no_data", "GET", "/api/v1/jobs/other/data/"+done.ID, "")
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "", "POST", "/api/v1/jobs", "name: news")
	for _, c := range []struct {
		status                   int
		text, method, path, body string
		headers                  []string
	}{
		{422, "x.yaml:2: setting.timeout: 1h0m0s: want 100ms to 5m0s", "POST", "/api/v1/jobs?file=x.yaml", "name: a\nsetting: {timeout: 1h}", nil},
		{422, "job: empty", "POST", "/api/v1/jobs", "", nil},
		{422, "is a file on the caller's machine", "POST", "/api/v1/jobs", "name: a\nuris: x.txt", nil},
		{422, "uris[1]: \\\"ftp://b/\\\": want http://", "POST", "/api/v1/jobs", "name: a\nuris: [http://a/, ftp://b/]", nil},
		{422, `"error_code":"unknown_filter"`, "POST", "/api/v1/jobs", "name: a\nfilter: nobody", nil},
		{422, "is not that of the path", "PUT", "/api/v1/jobs/news", "name: other", nil},
		{422, "setting.report_mails: this server sends no mails", "POST", "/api/v1/jobs", "name: a\nsetting: {report_mails: [a@example.com]}", nil},
		{404, "unknown_job", "PUT", "/api/v1/jobs/other", "name: other", nil},
		{413, "limits.job_bytes", "POST", "/api/v1/jobs", "name: a #" + strings.Repeat("x", 65<<10), nil},
		{404, "unknown_job", "POST", "/api/v1/jobs/other/uris", "http://a/", []string{"Content-Type", "text/plain"}},
		{415, "want text/plain or application/x-ndjson", "POST", "/api/v1/jobs/news/uris", "http://a/", nil},
		{400, "line 2: \\\"nothing\\\": want http:// or https:// and a host; those before it are added", "POST", "/api/v1/jobs/news/uris", "http://a/\nnothing", []string{"Content-Type", "text/plain"}},
		{400, "line 1: want a JSON string", "POST", "/api/v1/jobs/news/uris", "{}", []string{"Content-Type", "application/x-ndjson"}},
		{400, "line 1: \\\"http://a/\\\\xff\\\": is not UTF-8", "POST", "/api/v1/jobs/news/uris", "http://a/\xff", []string{"Content-Type", "text/plain"}},
		{400, "is not UTF-8: percent-encode its bytes", "POST", "/api/v1/jobs/news/uris", "\"http://a/\xff\"", []string{"Content-Type", "application/x-ndjson"}},
		{400, "skip_invalid: \\\"yes\\\": want true or false", "POST", "/api/v1/jobs/news/uris?skip_invalid=yes", "http://a/", []string{"Content-Type", "text/plain"}},
		{400, "line 1: is longer than", "POST", "/api/v1/jobs/news/uris", strings.Repeat("x", 100_000), []string{"Content-Type", "text/plain"}},
		{400, `"known":["waiting","ready","running","done","failed"]`, "GET", "/api/v1/jobs/news/tasks?state=lost", "", nil},
		{400, "want 1 or more", "GET", "/api/v1/jobs/news/logs?limit=0", "", nil},
		{404, "unknown_path", "GET", "/api/v2", "", nil},
		{405, "want GET or POST", "DELETE", "/api/v1/jobs", "", nil},
		{403, "cross_site", "GET", "/api/v1/jobs", "", []string{"Origin", "http://evil.example"}},
	} {
		r.want(c.status, c.text, c.method, c.path, c.body, c.headers...)
	}
	r.want(200, `"added":0,"seen":0,"known":1`, "POST", "/api/v1/jobs/news/uris", "http://a/", "Content-Type", "text/plain")
	// A file from Windows begins with a mark, and invalid URIs can be skipped.
	r.want(200, `{"total":4,"added":0,"seen":0,"known":2,"invalid":2}`, "POST", "/api/v1/jobs/news/uris?skip_invalid=true", "\ufeffhttp://a/\nftp://b/\nhttp://a/\nnothing", "Content-Type", "text/plain")
	// Only the refusal itself is kept.
	r.want(200, "setting.timeout: 1h0m0s", "GET", "/api/v1/refusals", "")
	r.want(404, "unknown_job", "GET", "/api/v1/jobs/a", "")
}

// After an error the lines before it are tasks, and neither the one that is too long nor the one that broke off is.
func TestURIsUpToAnError(t *testing.T) {
	t.Parallel()
	long := "http://a/" + strings.Repeat("x", maxLine)
	for _, c := range []struct {
		path, body string
		breaks     bool
		status     int
		text       string
		tasks      int
	}{
		{"uris", "http://a/1\n" + long + "\nhttp://a/2", false, 400, "line 2: is longer than 49152 bytes; those before it are added", 1},
		{"uris", "http://a/1\n" + long, false, 400, "line 2: is longer", 1},
		{"uris?skip_invalid=true", "http://a/1\n" + long + "\nhttp://a/2", false, 200, `{"total":3,"added":2,"seen":0,"known":0,"invalid":1}`, 2},
		{"uris?skip_invalid=true", "http://a/1\n" + long[:maxLine], false, 200, `"invalid":1`, 1},
		{"uris?skip_invalid=true", long[:maxLine-1] + "\nhttp://a/1", false, 200, `"invalid":1`, 1},
		{"uris", "http://a/1\nhttp://a/2", true, 400, "incomplete_body", 1},
		{"uris", strings.Repeat("http://a/1\n", addBatch-1) + "http://a/2", true, 400, "incomplete_body", 1}, // the task that would complete a batch
	} {
		r := newRig(t)
		r.want(201, "news", "POST", "/api/v1/jobs", "name: news")
		var body io.Reader = strings.NewReader(c.body)
		if c.breaks {
			body = io.MultiReader(body, iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		req := httptest.NewRequestWithContext(t.Context(), "POST", r.url+"/api/v1/jobs/news/"+c.path, body)
		req.Header.Set("Content-Type", "text/plain")
		resp := httptest.NewRecorder()
		r.master.ServeHTTP(resp, req)
		if resp.Code != c.status || !strings.Contains(resp.Body.String(), c.text) {
			t.Errorf("%.40s: %d %s, want %d %s", c.body, resp.Code, resp.Body, c.status, c.text)
		}
		if _, tasks := r.do("GET", "/api/v1/jobs/news/tasks", ""); strings.Count(tasks, "\n") != c.tasks {
			t.Errorf("%.40s: want %d tasks, got %.300s", c.body, c.tasks, tasks)
		}
	}
}

// noted is a body that reports that something was read of it.
type noted struct {
	io.ReadCloser
	read chan struct{}
	once sync.Once
}

func (n *noted) Read(p []byte) (int, error) {
	got, err := n.ReadCloser.Read(p)
	if got > 0 {
		n.once.Do(func() { close(n.read) })
	}
	return got, err
}

// The URIs that were read are tasks even if the client has gone. HTTP/2 then ends the call's context at once.
func TestURIsOfAClientThatHasGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "news", "POST", "/api/v1/jobs", "name: news")
	read, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		req.Body = &noted{ReadCloser: req.Body, read: read}
		r.master.ServeHTTP(w, req)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	body, sending := io.Pipe()
	defer sending.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		_, _ = io.WriteString(sending, "http://a/1\nhttp://a/2\nhttp://a/")
		<-read
		leave()
	}()
	req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/api/v1/jobs/news/uris", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	if resp, err := server.Client().Do(req); err == nil {
		t.Errorf("the call was answered with %s", resp.Status)
		_ = resp.Body.Close()
	}
	<-ended
	r.want(200, `"waiting":2`, "GET", "/api/v1/jobs/news", "")
}

// leaving is a store whose caller goes when a job is stored.
type leaving struct {
	download.Store
	leave func()
}

func (l leaving) AddJob(ctx context.Context, j download.Job) (download.Job, error) {
	j, err := l.Store.AddJob(ctx, j)
	l.leave()
	<-ctx.Done()
	return j, err
}

// A job that is stored has its URIs even if the caller, who would be refused the next time, has gone.
func TestAJobOfAClientThatHasGone(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	r := newRig(t, func(o *Options) { o.Store = leaving{o.Store, leave} })
	req := httptest.NewRequestWithContext(ctx, "POST", r.url+"/api/v1/jobs", strings.NewReader("name: news\nuris: [http://a/1, http://a/2]"))
	r.master.ServeHTTP(httptest.NewRecorder(), req)
	r.want(200, `"waiting":2`, "GET", "/api/v1/jobs/news", "")
}

// What people are told at / has every call, and the refusals are all that are kept.
func TestWhatTheIndexPromises(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, index := r.do("GET", "/", "")
	for pattern := range r.master.calls() {
		if _, path, _ := strings.Cut(pattern, " "); path != "/{$}" && !regexp.MustCompile(`[ ]`+regexp.QuoteMeta(path)+`[ ?\n]`).MatchString(index) {
			t.Errorf("/ says nothing of %s", pattern)
		}
	}
	for i := range download.MaxRefusals + 1 {
		if err := r.store.KeepRefusal(t.Context(), download.Refusal{Name: fmt.Sprint("job", i), Text: "no"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, text := r.do("GET", "/api/v1/refusals", ""); strings.Count(text, `"name"`) != download.MaxRefusals || !strings.Contains(text, `"job200"`) {
		t.Errorf("%d refusals, want %d", strings.Count(text, `"name"`), download.MaxRefusals)
	}
}

// jobsAway is a store whose server does not answer.
type jobsAway struct{ download.Store }

func (jobsAway) ListJobs(context.Context) ([]download.Job, error) {
	return nil, fmt.Errorf("list jobs: store 192.0.2.1: %w", download.ErrUnavailable)
}

func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Store = jobsAway{o.Store} })
	r.want(503, `"error_code":"store_unavailable"`, "GET", "/api/v1/jobs", "")
}

// forgetful is a filter that answers, and then does not remember.
type forgetful struct{ seen.Filter }

func (forgetful) Remember(context.Context, string, []string) error { return errors.New("it is away") }

// Whoever sends a job whose URIs cannot be added is told that the job is there, and how to go on.
func TestFilterGoesAwayWhileAJobIsAdded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Intake = intake.New(o.Store, forgetful{o.Filter}, "") })
	const job = "name: news\nfilter: uri_download\nuris: [http://a.example/]"
	r.want(503, "the job is stored, its URIs may not be: PUT /api/v1/jobs/news sends them again", "POST", "/api/v1/jobs", job)
	r.want(503, "PUT /api/v1/jobs/news", "PUT", "/api/v1/jobs/news", job)
	r.want(200, `"name":"news"`, "GET", "/api/v1/jobs/news", "")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.Authenticate = func(secret string) (string, []string, bool) {
			return secret, []string{secret}, secret == ScopeRead || secret == ScopeSubmit || secret == ScopeAdmin
		}
	})
	for _, c := range []struct{ method, path, body, scopes string }{
		{"GET", "/api/v1/jobs", "", "read submit admin"},
		{"POST", "/api/v1/check", "name: a", "read submit admin"},
		{"POST", "/api/v1/jobs", "name: a", "submit admin"},
		{"POST", "/api/v1/jobs/a/pause", "", "submit admin"},
		{"POST", "/api/v1/jobs/a/generate", "", "submit admin"},
		{"DELETE", "/api/v1/jobs/a?confirm=a", "", "admin"},
	} {
		r.want(401, "unauthorized", c.method, c.path, c.body)
		r.want(401, "unauthorized", c.method, c.path, c.body, "Authorization", "Bearer nobody")
		r.want(401, "unauthorized", c.method, c.path, c.body, "Authorization", "")
		r.want(401, "unauthorized", c.method, c.path, c.body, "Authorization", "  ")
		for _, scope := range []string{ScopeRead, ScopeSubmit, ScopeAdmin} {
			status, _ := r.do(c.method, c.path, c.body, "Authorization", "Bearer "+scope)
			if allowed := strings.Contains(c.scopes, scope); allowed != (status != 403) || status == 401 {
				t.Errorf("%s %s with %s: %d", c.method, c.path, scope, status)
			}
		}
	}
	r.want(200, "alive", "GET", "/livez", "")
	r.want(200, "ready", "GET", "/readyz", "")
	r.want(200, "uridownloader_requests_total", "GET", "/metrics", "")
	r.want(200, "/api/v1/jobs", "GET", "/", "")
}

// A call whose answer is empty is counted with its status, too.
func TestEmptyAnswersAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "", "POST", "/api/v1/jobs", "name: empty")
	r.want(200, "", "GET", "/api/v1/jobs/empty/tasks", "")
	r.want(200, `uridownloader_requests_total{code="200",path="/api/v1/jobs/{name}/tasks"} 1`, "GET", "/metrics", "")
}

// One token's lists that do not end leave room for calls of other tokens.
func TestOneTokenLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.Connections = 8
		o.Authenticate = func(secret string) (string, []string, bool) { return secret, []string{ScopeSubmit}, secret != "" }
	})
	r.want(201, "", "POST", "/api/v1/jobs", "name: a", "Authorization", "Bearer one")
	runs := make([]byte, len("HTTP/1.1 100"))
	for range 4 { // until each is read, so that all four count
		if _, err := io.ReadFull(r.unfinished("Authorization: Bearer one\r\nExpect: 100-continue\r\n"), runs); err != nil || string(runs) != "HTTP/1.1 100" {
			t.Fatalf("%q %v", runs, err)
		}
	}
	if status, text := r.do("GET", "/api/v1/jobs", "", "Authorization", "Bearer one"); status != 503 || !strings.Contains(text, "half of limits.connections") {
		t.Errorf("a call beyond the share: %d %s", status, text)
	}
	r.want(200, "", "GET", "/api/v1/jobs", "", "Authorization", "Bearer two")
}

// A call that is refused before its body has come is answered, and its connection does not stay.
func TestARefusedBodyIsNotAwaited(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.BodyTimeout = 2 * time.Second
		o.Authenticate = func(string) (string, []string, bool) { return "", nil, false }
	})
	answer := make([]byte, len("HTTP/1.1 401"))
	if _, err := io.ReadFull(r.unfinished(""), answer); err != nil || !strings.HasSuffix(string(answer), " 401") {
		t.Errorf("%q %v", answer, err)
	}
}

// unfinished sends a list of URIs without its end, and returns the connection.
func (r *rig) unfinished(header string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		r.t.Fatal(err)
	}
	_, err = io.WriteString(conn, "POST /api/v1/jobs/a/uris HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"+header+"\r\n13\r\nhttp://a.example/\r\n\r\n")
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// Many callers add the same URIs to two jobs with one filter: each URI becomes one task.
func TestOneFilterBetweenJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(201, "", "POST", "/api/v1/jobs", "name: one\nfilter: uri_download")
	r.want(201, "", "POST", "/api/v1/jobs", "name: two\nfilter: uri_download")
	const n = 2000
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "http://%d.example/\n", i)
	}
	done := make(chan Added)
	for caller := range 8 {
		go func() {
			status, text := r.do("POST", "/api/v1/jobs/"+[]string{"one", "two"}[caller%2]+"/uris", body.String(), "Content-Type", "text/plain")
			var a Added
			if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
				t.Errorf("%d %s", status, text)
			}
			done <- a
		}()
	}
	var sum Added
	for range 8 {
		a := <-done
		sum.Added, sum.Seen, sum.Known = sum.Added+a.Added, sum.Seen+a.Seen, sum.Known+a.Known
	}
	// The filter may take a new URI for seen, one in ten thousand.
	if sum.Added > n || sum.Added < n-5 || sum.Added+sum.Seen+sum.Known != 8*n {
		t.Errorf("%+v of %d URIs", sum, n)
	}
}
