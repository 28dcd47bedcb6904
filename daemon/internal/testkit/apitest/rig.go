// Package apitest lets tests call the HTTP interface: a server over a store in memory, on
// real connections or on those of a synctest bubble, whose answers are checked against
// openapi.yaml. Tests of the calls are in package front/http and in the folders of this one.
package apitest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Rig is a Server over a real engine behind a real http.Server. Every answer that goes
// through Do is checked against openapi.yaml.
type Rig struct {
	T      testing.TB
	API    *api.Server
	Engine *engine.Engine
	opts   api.Options
	HTTP   *httptest.Server
	Store  *MemStore
	Log    *testserver.Log
	temp   string // Options.TempDir
	Doc    *openapi3.T
	paths  routers.Router

	connect func() (net.Conn, error)
	Arrived atomic.Int64 // requests whose header is complete
}

// New makes a Rig over a store in memory.
func New(t testing.TB, change ...func(*api.Options)) *Rig {
	t.Helper()
	mem := &MemStore{}
	r := Over(t, mem, change...)
	r.Store = mem
	return r
}

// Over is New over another store, which the test closes.
func Over(t testing.TB, store engine.Store, change ...func(*api.Options)) *Rig {
	t.Helper()
	return serveRig(t, store, serveOverTCP, change...)
}

func serveOverTCP(r *Rig) {
	r.HTTP = httptest.NewServer(r)
	r.connect = func() (net.Conn, error) { return net.Dial("tcp", r.HTTP.Listener.Addr().String()) }
}

// Restart replaces the server by one with other options, over the same filters.
func (r *Rig) Restart(change func(*api.Options)) {
	o := r.opts
	o.Registry = prometheus.NewRegistry()
	change(&o)
	r.API, r.opts = api.New(o), o
}

// ServeHTTP is that of the server, but counts the requests.
func (r *Rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.Arrived.Add(1)
	r.API.ServeHTTP(w, req)
}

func serveRig(t testing.TB, store engine.Store, serve func(*Rig), change ...func(*api.Options)) *Rig {
	t.Helper()
	r := &Rig{T: t, Log: &testserver.Log{}}
	log := slog.New(slog.NewTextHandler(r.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	want := []engine.Spec{
		// So large that none of the 300,000 items of a test is a false positive: the
		// probability of one is a millionth.
		{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 4_000_000, ErrorRate: 0.0001, OnFull: "warn"}},
		{ID: 2, Name: "ip", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 0.0001, OnFull: "warn"}},
	}
	e, err := engine.Open(context.Background(), store, engine.Settings{Filters: want, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	o := Options(t, e, log)
	for _, f := range change {
		f(&o)
	}
	r.API, r.Engine, r.opts, r.temp = api.New(o), e, o, o.TempDir
	serve(r)
	spec, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	r.Doc, r.paths = spec.doc, spec.paths
	t.Cleanup(r.close)
	return r
}

// Options are those of a Server over an engine, with the limits of settings that name none.
func Options(t testing.TB, e *engine.Engine, log *slog.Logger) api.Options {
	limits := configs.Default().Limits
	limits.HeldBytes = 256 << 20
	return api.Options{
		Engine: e, Logger: log, Registry: prometheus.NewRegistry(), Limits: limits,
		Version: "1.2.3", Defaults: configs.Defaults{Capacity: 5000, ErrorRate: 0.0001}, TempDir: t.TempDir(),
	}
}

// close checks that nothing is held after the end of all requests.
func (r *Rig) close() {
	r.HTTP.Close()
	r.AwaitNothingHeld()
	if _, n := r.API.Held(); n != 0 {
		r.T.Errorf("bytes of answers still on disk: %d", n)
	}
	if left, _ := os.ReadDir(r.temp); len(left) != 0 {
		r.T.Errorf("files left in the temporary directory: %v", left)
	}
}

// AwaitNothingHeld waits until no request holds any bytes of its body.
func (r *Rig) AwaitNothingHeld() {
	r.T.Helper()
	r.Eventually("no bytes of bodies held", func() bool { bodies, _ := r.API.Held(); return bodies == 0 })
}

// Dial opens a connection for a test that speaks HTTP itself.
func (r *Rig) Dial() *net.TCPConn {
	r.T.Helper()
	return r.DialAny().(*net.TCPConn)
}

// HalfCloser is a connection whose sending half can be closed.
type HalfCloser interface{ CloseWrite() error }

// DialAny is Dial that also works if connections are pipes.
func (r *Rig) DialAny() net.Conn {
	r.T.Helper()
	conn, err := r.connect()
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		r.T.Fatal(err)
	}
	return conn
}

// Eventually waits for a condition on the other side of a connection.
func (r *Rig) Eventually(what string, ok func() bool) {
	r.T.Helper()
	testserver.Await(r.T, what, ok, r.Log)
}

// Scrape reads the metrics.
func (r *Rig) Scrape() string {
	r.T.Helper()
	return r.Do("GET", "/metrics", "").Body
}
