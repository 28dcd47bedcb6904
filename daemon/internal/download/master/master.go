// Package master is the HTTP API of the downloader: it takes jobs and URIs, and reports what became
// of them. It uses only the contract of stores, no particular store, and hands out no tasks.
package master

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// The scopes of tokens: admin includes submit, which includes read.
const (
	ScopeRead   = "read"
	ScopeSubmit = "submit"
	ScopeAdmin  = "admin"
)

// Options are what a master needs. All but Authenticate, AllowedHosts, Version, Added, Ready, Unable, Check and Proxy are required.
type Options struct {
	Store  download.Store
	Filter seen.Filter
	Intake *intake.Intake // of Store and Filter
	// Added is called after a job or URIs came in, or a job was turned on. It must not block.
	Added func()
	// Ready reports whether the process can take calls; a nil error means yes.
	Ready func(context.Context) error
	Mails bool // reports can be sent to the addresses that jobs name
	// Unable, if not nil, returns why this process cannot download with an engine, or nil if it can.
	Unable func(engine string) error
	// Check, if not nil, returns errors in the code of a script that reading the job does not find.
	Check func(ctx context.Context, c download.Code, of download.Script) error
	// Proxy, if not nil, returns why a proxy of a job would be refused, as far as that is known before
	// its name is resolved.
	Proxy        func(uri string) error
	JobBytes     int64         // the largest job; all that are read at a time may take readingBytes of memory
	BodyTimeout  time.Duration // how long a caller may send or read nothing
	Authenticate func(secret string) (name string, scopes []string, ok bool)
	AllowedHosts []string
	Version      string // of the program, as its page shows it
	Connections  int    // that may be open, of which the calls of one token take half; 0: no limit
	Log          *slog.Logger
	Registry     *prometheus.Registry
}

// Master answers calls. It is an http.Handler, safe for concurrent use.
type Master struct {
	Options
	mux      *http.ServeMux
	reading  *budget.Budget // memory of jobs that are read, in bytes
	access   *access.Guard
	site     *page.Site // pages for people
	jobsSeen page.Cached[*jobsLook]
	requests *prometheus.CounterVec
	uris     *prometheus.CounterVec
}

// action is what a call does once it is admitted.
type action func(w http.ResponseWriter, r *http.Request) error

// New makes a Master and registers its metrics.
func New(o Options) *Master {
	registry := prometheus.WrapRegistererWithPrefix("uridownloader_", o.Registry)
	m := &Master{
		Options: o, mux: http.NewServeMux(), reading: budget.New(readingBytes(o.JobBytes)),
		access: access.New(access.Options{
			Program: "uridownloader", Includes: map[string][]string{ScopeAdmin: {ScopeRead, ScopeSubmit}, ScopeSubmit: {ScopeRead}},
			Authenticate: o.Authenticate, AllowedHosts: o.AllowedHosts, Connections: o.Connections, Log: o.Log,
		}, registry),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Calls by what they match and status."}, []string{"path", "code"}),
		uris:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "uris_total", Help: "URIs that came in: added, seen (by the job's filter), known (to the job) or refused."}, []string{"outcome"}),
	}
	registry.MustRegister(m.requests, m.uris)
	for pattern, call := range m.calls() {
		m.mux.HandleFunc(pattern, m.admit(call.scope, pattern, call.taking))
	}
	m.jobsSeen.For, m.site = pageFresh, m.newSite()
	for _, method := range []string{http.MethodGet, http.MethodPost} { // scopes are up to each page
		m.mux.HandleFunc(method+" "+page.Prefix, m.admit("", page.Prefix, m.page))
	}
	return m
}

// call is what a pattern of net/http leads to.
type call struct {
	scope string // "": no token is needed
	do    action
	query []string // the parameters that it takes below /api/; others take any
}

// taking does it unless there are other parameters. Callers of other paths, such as browsers and probes, may add
// what they like.
func (c call) taking(w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		if _, err := problemdetail.Query(r, c.query...); err != nil {
			return err
		}
	}
	return c.do(w, r)
}

// calls are all calls that are answered; openapi.yaml describes them.
func (m *Master) calls() map[string]call {
	return map[string]call{
		"GET /{$}":                            {"", m.index, nil},
		"GET /livez":                          {"", m.live, nil},
		"GET /readyz":                         {"", m.ready, nil},
		"GET /metrics":                        {"", m.metrics, nil},
		"GET /openapi.yaml":                   {"", m.openAPI, nil},
		"POST /api/v1/check":                  {ScopeRead, m.checkJob, []string{"file"}},
		"GET /api/v1/refusals":                {ScopeRead, m.refusals, []string{"limit"}},
		"GET /api/v1/activity":                {ScopeRead, m.activity, []string{"since"}},
		"GET /api/v1/jobs":                    {ScopeRead, m.listJobs, nil},
		"POST /api/v1/jobs":                   {ScopeSubmit, m.addJob, []string{"file"}},
		"GET /api/v1/jobs/{name}":             {ScopeRead, m.showJob, nil},
		"PUT /api/v1/jobs/{name}":             {ScopeSubmit, m.changeJob, []string{"file"}},
		"DELETE /api/v1/jobs/{name}":          {ScopeAdmin, m.dropJob, []string{"confirm"}},
		"POST /api/v1/jobs/{name}/pause":      {ScopeSubmit, m.pause, nil},
		"POST /api/v1/jobs/{name}/resume":     {ScopeSubmit, m.resume, nil},
		"POST /api/v1/jobs/{name}/generate":   {ScopeSubmit, m.generate, nil},
		"POST /api/v1/jobs/{name}/retry":      {ScopeSubmit, m.retry, []string{"reason", "host"}},
		"POST /api/v1/jobs/{name}/uris":       {ScopeSubmit, m.addURIs, []string{"skip_invalid"}},
		"GET /api/v1/jobs/{name}/tasks":       {ScopeRead, m.tasks, []string{"state", "task", "limit"}},
		"GET /api/v1/jobs/{name}/logs":        {ScopeRead, m.logs, []string{"task", "limit"}},
		"GET /api/v1/jobs/{name}/data":        {ScopeRead, m.data, []string{"task", "limit"}},
		"GET /api/v1/jobs/{name}/data/{task}": {ScopeRead, m.body, nil},
	}
}

//go:embed openapi.yaml
var openAPIText []byte

func (m *Master) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, err := w.Write(openAPIText)
	return err
}

// ServeHTTP answers a call.
func (m *Master) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if _, pattern := m.mux.Handler(r); pattern != "" {
		m.mux.ServeHTTP(w, r)
		return
	}
	m.admit("", "unknown", func(http.ResponseWriter, *http.Request) error { return m.unmatched(r) })(w, r)
}

// unmatched distinguishes an unknown path from a method that the path does not take.
func (m *Master) unmatched(r *http.Request) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := m.mux.Handler(other); pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		return &problemdetail.Error{Code: problemdetail.UnknownPath, Detail: "/ lists the paths"}
	}
	return &problemdetail.Error{Code: problemdetail.MethodNotAllowed, Detail: "want " + strings.Join(allow, " or "), Header: [2]string{"Allow", strings.Join(allow, ", ")}}
}

// admit checks where a call comes from, and its token.
func (m *Master) admit(scope, path string, do action) http.HandlerFunc {
	if _, pattern, found := strings.Cut(path, " "); found {
		path = pattern // without the method; a label must not be the caller's choice
	}
	return func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, m: m}
		if r.Body != http.NoBody {
			// If no action reads it, net/http does, before the answer goes out: half of the time is for that.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(m.BodyTimeout / 2)) // see timedBody
		}
		token, err := m.admitted(scope, path, r)
		if err == nil && token != "" {
			if err = m.access.Enter(token); err == nil {
				defer m.access.Leave(token)
			}
		}
		if err == nil {
			err = do(rec, r)
		}
		if err != nil && !rec.begun {
			m.fail(rec, r, path, err)
		} else if err != nil && r.Context().Err() == nil {
			m.Log.Error("an answer broke off", "path", path, "err", err)
			m.requests.WithLabelValues(path, "599").Inc()
			panic(http.ErrAbortHandler) // the client must not take the partial answer for the whole
		}
		m.requests.WithLabelValues(path, strconv.Itoa(cmp.Or(rec.status, http.StatusOK))).Inc() // an empty list writes nothing
	}
}

// admitted returns the name of the token, "" if none is needed.
func (m *Master) admitted(scope, path string, r *http.Request) (token string, err error) {
	if err := m.access.Page(r); err != nil || scope == "" || !m.access.AsksTokens() {
		return "", err
	}
	call := access.Call{Request: r, Path: path, Scope: scope}
	token, present, err := m.access.Header(call)
	if err == nil && !present {
		return "", m.access.NoToken(call, "send Authorization: Bearer and a token")
	}
	return token, err
}

// recorder notes whether an answer has begun, and limits the time for each piece of it.
type recorder struct {
	http.ResponseWriter
	m      *Master
	begun  bool
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.begun, r.status = true, status
	r.deadline()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
	r.deadline()
	return r.ResponseWriter.Write(b)
}

func (r *recorder) deadline() {
	// Where deadlines are not supported (a recorder in tests), no client can be slow.
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.m.BodyTimeout))
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// index is a page for browsers, and a text for others.
func (m *Master) index(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	if page.WantsHTML(r) {
		return m.page(w, r)
	}
	const text = `uridownloader: jobs, their tasks, and what was downloaded. docs/downloader.md says more.

GET    /api/v1/jobs                     all jobs
POST   /api/v1/jobs                     a job (YAML or JSON) is checked and stored
POST   /api/v1/check                    a job is checked, and not stored
GET    /api/v1/jobs/{name}              a job, with its tasks by state
PUT    /api/v1/jobs/{name}              a further version of a job
DELETE /api/v1/jobs/{name}?confirm=name the job, with all that belongs to it
POST   /api/v1/jobs/{name}/pause        no task of it is handed out
POST   /api/v1/jobs/{name}/resume
POST   /api/v1/jobs/{name}/generate     its script generate runs now
POST   /api/v1/jobs/{name}/retry        failed tasks wait again; ?reason=timeout&host=HOST
POST   /api/v1/jobs/{name}/uris         URIs: text/plain or application/x-ndjson, one a line
GET    /api/v1/jobs/{name}/tasks        NDJSON; ?state=failed&limit=100
GET    /api/v1/jobs/{name}/logs         NDJSON, one an attempt (0: a lease that was abandoned); ?limit=100
GET    /api/v1/jobs/{name}/data         NDJSON, one a result; ?limit=100
GET    /api/v1/jobs/{name}/data/{task}  the body that was downloaded
GET    /api/v1/activity                 jobs by state, live workers, failed attempts by reason; ?since=TIME
GET    /api/v1/refusals                 the newest 200 jobs that were refused, and why
GET    /livez /readyz /metrics
GET    /openapi.yaml                    all of this, for programs
`
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte(text))
	return err
}

func (m *Master) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte("alive\n"))
	return err
}

func (m *Master) ready(w http.ResponseWriter, r *http.Request) error {
	if m.Ready != nil {
		if err := m.Ready(r.Context()); err != nil {
			return &problemdetail.Error{Code: problemdetail.NotReady, Detail: err.Error(), Cause: err}
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte("ready\n"))
	return err
}

func (m *Master) metrics(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// limit reads ?limit=, 0: none.
func limit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: "limit " + strconv.Quote(text) + ": want 1 or more"}
	}
	return n, nil
}

// wanted reads a query for the records of a job.
func (m *Master) wanted(r *http.Request) (download.Query, error) {
	j, err := m.Store.Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return download.Query{}, err
	}
	q := download.Query{Job: j.ID, State: download.State(r.URL.Query().Get("state")), Task: r.URL.Query().Get("task")}
	if q.State != "" && !slices.Contains(download.States(), q.State) {
		known := []string{}
		for _, s := range download.States() {
			known = append(known, string(s))
		}
		return q, &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: "state " + strconv.Quote(string(q.State)) + ": is none", Known: known}
	}
	q.Limit, err = limit(r)
	return q, err
}
