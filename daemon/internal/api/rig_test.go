package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.FileBodyDecoder)
	os.Exit(m.Run())
}

// rig is a Server over a real engine behind a real http.Server. Every answer that goes
// through do is held against openapi.yaml.
type rig struct {
	t     testing.TB
	api   *Server
	http  *httptest.Server
	store *memStore
	log   *lockedBuffer
	temp  string // Options.TempDir
	doc   *openapi3.T
	paths routers.Router

	connect func() (net.Conn, error)
	arrived atomic.Int64 // requests whose header is whole
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	mem := &memStore{}
	r := newRigOver(t, mem, change...)
	r.store = mem
	return r
}

// newRigOver is newRig over another store, which the test closes.
func newRigOver(t testing.TB, store engine.Store, change ...func(*Options)) *rig {
	t.Helper()
	return serveRig(t, store, serveOverTCP, change...)
}

func serveOverTCP(r *rig) {
	r.http = httptest.NewServer(r)
	r.connect = func() (net.Conn, error) { return net.Dial("tcp", r.http.Listener.Addr().String()) }
}

// ServeHTTP is the server's, with a count of the requests.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.arrived.Add(1)
	r.api.ServeHTTP(w, req)
}

func serveRig(t testing.TB, store engine.Store, serve func(*rig), change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, log: &lockedBuffer{}}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	want := []engine.Spec{
		// So large that of the 300,000 items of a test none is a false positive: the
		// chance is one in a million.
		{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 4_000_000, ErrorRate: 0.0001, OnFull: "warn"}},
		{ID: 2, Name: "ip", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 0.0001, OnFull: "warn"}},
	}
	e, err := engine.Open(context.Background(), store, want, log)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Engine: e, Logger: log, Version: "1.2.3", Defaults: configs.Defaults{Capacity: 5000, ErrorRate: 0.0001}, TempDir: t.TempDir()}
	for _, f := range change {
		f(&o)
	}
	r.api, r.temp = New(o), o.TempDir
	serve(r)
	spec, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	r.doc, r.paths = spec.doc, spec.paths
	t.Cleanup(r.close)
	return r
}

type openAPISpec struct {
	doc   *openapi3.T
	paths routers.Router
}

// openAPI is openapi.yaml, which takes long to load.
var openAPI = sync.OnceValues(func() (spec openAPISpec, err error) {
	if spec.doc, err = openapi3.NewLoader().LoadFromData(openAPIText); err == nil {
		spec.paths, err = legacy.NewRouter(spec.doc)
	}
	return spec, err
})

// close checks that nothing is still held when all requests are over.
func (r *rig) close() {
	r.http.Close()
	r.eventually("no bytes of bodies held", func() bool { return r.api.held.Used()+r.api.anonymous.Used() == 0 })
	if n := r.api.spool.Used(); n != 0 {
		r.t.Errorf("bytes of answers still on disk: %d", n)
	}
	if left, _ := os.ReadDir(r.temp); len(left) != 0 {
		r.t.Errorf("files left in the temporary directory: %v", left)
	}
}

type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

func (a answer) problem(t testing.TB) client.Problem {
	t.Helper()
	var p client.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("not a problem: %v: %q", err, a.body)
	}
	return p
}

// do sends a request; header is name, value, name, value ...
func (r *rig) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.http.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.send(req, body)
}

// send sends a request whose body is known.
func (r *rig) send(req *http.Request, body string) answer {
	r.t.Helper()
	resp, err := r.http.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, resp.Trailer, string(text)}
	r.validate(req, body, a)
	return a
}

func (r *rig) post(path, body string, header ...string) answer {
	r.t.Helper()
	if len(header) == 0 {
		header = []string{"Content-Type", "application/json"}
	}
	return r.do(http.MethodPost, path, body, header...)
}

// validate holds an answer, and a request that was well, against openapi.yaml.
func (r *rig) validate(req *http.Request, body string, a answer) {
	r.t.Helper()
	if req.Method == http.MethodHead {
		return
	}
	req = req.Clone(context.Background())
	req.URL.Path = strings.TrimSuffix(req.URL.Path, "/")
	if req.URL.Path == "" {
		req.URL.Path = "/"
	}
	req.URL.Host, req.URL.Scheme, req.Host = "", "", ""
	req.Body = io.NopCloser(strings.NewReader(body))
	route, params, err := r.paths.FindRoute(req)
	if err != nil {
		if a.status != 404 && a.status != 405 {
			r.t.Errorf("%s %s: %v, answered %d", req.Method, req.URL.Path, err, a.status)
		}
		r.validateProblem(a)
		return
	}
	kind, coded := req.Header.Get("Content-Type"), req.Header.Get("Content-Encoding")
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		ExcludeRequestBody: body == "" || coded != "" || !strings.Contains("application/json text/plain application/x-ndjson", kind) || kind == "",
	}}
	if a.status < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			r.t.Errorf("%s %s: accepted, but not as openapi.yaml says: %v", req.Method, req.URL.Path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header,
		Body: io.NopCloser(strings.NewReader(a.body)), Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		r.t.Errorf("%s %s: answer is not as openapi.yaml says: %v", req.Method, req.URL.Path, err)
	}
	if a.status >= 400 && a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		r.validateProblem(a)
		r.validateCode(route, a)
	}
}

func (r *rig) validateProblem(a answer) {
	r.t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Errorf("Content-Type of a %d: %q", a.status, got)
	}
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		r.t.Errorf("%d: %v: %q", a.status, err, a.body)
		return
	}
	if err := r.doc.Components.Schemas["Problem"].Value.VisitJSON(v); err != nil {
		r.t.Errorf("%d: not a Problem: %v", a.status, err)
	}
	if p := a.problem(r.t); p.Status != a.status {
		r.t.Errorf("status %d, in the problem %d", a.status, p.Status)
	}
}

// validateCode checks that the operation names the error code under the status.
func (r *rig) validateCode(route *routers.Route, a answer) {
	r.t.Helper()
	code := a.problem(r.t).ErrorCode
	for _, known := range errorCodesOf(route.Operation.Responses.Status(a.status)) {
		if known == code {
			return
		}
	}
	r.t.Errorf("%s %s: openapi.yaml does not name %s under %d", route.Method, route.Path, code, a.status)
}

func errorCodesOf(resp *openapi3.ResponseRef) []string {
	var codes []string
	if resp == nil {
		return nil
	}
	list, _ := resp.Value.Extensions["x-error-codes"].([]any)
	for _, code := range list {
		codes = append(codes, code.(string))
	}
	return codes
}

// dial opens a connection for a test that speaks HTTP itself.
func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	return r.dialAny().(*net.TCPConn)
}

// halfCloser is a connection that can be told that no more will be sent.
type halfCloser interface{ CloseWrite() error }

// dialAny is dial also where connections are pipes.
func (r *rig) dialAny() net.Conn {
	r.t.Helper()
	conn, err := r.connect()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// eventually waits for what happens on the other side of a connection.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	r.t.Errorf("never: %s; log:", what)
	for line := range strings.Lines(r.log.String()) {
		if !strings.Contains(line, "path=/metrics") {
			r.t.Log(line)
		}
	}
}

// scrape reads the metrics.
func (r *rig) scrape() string {
	r.t.Helper()
	return r.do("GET", "/metrics", "").body
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
