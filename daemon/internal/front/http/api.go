// Package http is the daemon's HTTP interface: it takes batches of items and answers
// which of them are new, manages filters, and reports the state of the daemon.
//
// Every call passes one gate (call.go), which checks the method, the token and the
// body's type, runs the action of the route, and turns its error into problem+json.
// openapi.yaml, which is also served, is the interface's manual.
//
// The package listens to no port and stops no server: it is an [http.Handler]. The
// [http.Server] around it must set ReadHeaderTimeout and IdleTimeout, but neither
// ReadTimeout nor WriteTimeout, because the package sets its own deadlines.
package http

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/tally"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/spool"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/status"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
)

// Options says what a Server serves, and within which limits.
type Options struct {
	// Engine holds the filters.
	Engine *engine.Engine
	// Backup copies bit-maps to and from the archive. Nil: there is none.
	Backup Backup
	// Logger gets failures, and every request at debug level.
	Logger *slog.Logger
	// Registry receives the metrics that /metrics shows.
	Registry *prometheus.Registry
	// Limits bound the cost of one request, and of all requests together: here HeldBytes is not 0.
	Limits configs.Limits
	// Authenticate finds the token to which secret belongs, in constant time.
	// Nil: calls need no token.
	Authenticate func(secret string) (name string, scopes []string, ok bool)
	// ProtectMetrics requires a token with the scope read for /metrics and /readyz?verbose,
	// too, which otherwise show the filters to everybody.
	ProtectMetrics bool
	// AllowedHosts are names, besides localhost and loopback addresses, that calls without
	// tokens may have in Host and Origin. Others are refused if Authenticate is nil.
	AllowedHosts []string
	// Connections is how many the program may have open, of which the calls of one token take
	// half at most. 0: no limit.
	Connections int
	// Defaults are the parameters of a filter whose PUT omits them.
	Defaults configs.Defaults
	// Version is shown by / and urifilter_build_info.
	Version string
	// About says what the status page tells about the daemon's parts.
	About status.About
	// TempDir is where the answer to a stream waits while its client does not read. The
	// daemon leaves the last tenth of its file system free, or 4 GiB if that is less.
	TempDir string
	// SpoolBytes bounds the answers that wait there, of all streams together, shared out as
	// HeldBytes. Beyond it, a stream's body is read no faster than its answer. Default: 16 GiB.
	SpoolBytes int64
}

// Server is the HTTP interface over one engine. It is safe for concurrent use.
type Server struct {
	engine *engine.Engine
	judge  batch.Judge
	backup Backup // nil: no archive
	log    *slog.Logger
	limits configs.Limits
	access *access.Guard
	waits  waits // for copies made by others
	// statusScope is the scope that /metrics and /readyz?verbose require; "": none.
	statusScope string
	defaults    configs.Defaults // for parameters that a PUT omits
	version     string
	routes      map[string]*route
	errors      map[string]problem.Entry
	metrics     *metrics
	tallies     *tally.Tallies
	status      *status.Status // the page for people
	calls       callPool
	unzippers   sync.Pool      // of *gzip.Reader
	codings     []*coding      // of answers
	held        *budget.Shared // bytes of bodies in memory
	anonymous   *budget.Shared // the same for bodies without an Authorization header
	spool       *spool.Folder
	draining    atomic.Bool
	header      sharedHeader
}

// New makes a Server and registers its metrics.
func New(o Options) *Server {
	s := &Server{
		engine: o.Engine,
		backup: o.Backup,
		log:    o.Logger,
		limits: o.Limits,
		access: access.New(access.Options{Program: "urifilter", Includes: scopeIncludes(), Authenticate: o.Authenticate, AllowedHosts: o.AllowedHosts, Connections: o.Connections, Log: o.Logger},
			prometheus.WrapRegistererWithPrefix("urifilter_", o.Registry)),

		defaults: o.Defaults,
		version:  o.Version,
		errors:   problem.ByCode(),
		codings:  allCodings(),
		held:     budget.NewShared(int64(o.Limits.HeldBytes)),

		anonymous: budget.NewShared(anonymousHeld),
		spool:     spool.NewFolder(o.TempDir, cmp.Or(o.SpoolBytes, 16<<30)),
		header:    newSharedHeader(),
	}
	if o.ProtectMetrics {
		s.statusScope = scopeRead
	}
	s.metrics = newMetrics(o.Registry, o.Version)
	s.tallies = tally.New(o.Engine, o.Registry)
	s.judge = batch.Judge{Engine: o.Engine, Observe: s.tallies.Observe}
	o.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "urifilter_ready",
		Help: "1 while /readyz answers 200: all filters are loaded, the store answers, and the daemon is not stopping.",
	}, func() float64 {
		if s.ready(context.Background()) != nil {
			return 0
		}
		return 1
	}))
	s.routes = s.newRoutes(o.Registry)
	s.status = status.New(status.Options{
		Engine: o.Engine, Tallies: s.tallies, Guard: s.access, API: s, Ready: s.ready, Version: o.Version, Read: scopeRead, Admin: scopeAdmin, About: o.About,
		Log: func(err error) { s.log.Error("page failed", "err", err) },
	})
	return s
}

// Sample keeps the history that the status page shows, until ctx ends.
func (s *Server) Sample(ctx context.Context) { s.status.Sample(ctx) }

// Drain makes /readyz fail from now on, so that balancers send no more requests.
// Requests that still come are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Held returns what running requests hold: bytes of bodies in memory, and bytes of answers on
// disk that their clients have not read yet.
func (s *Server) Held() (bodies, answers int64) {
	return s.held.Used() + s.anonymous.Used(), s.spool.Used()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	anonymous := s.access.Anonymous(r)
	c := s.calls.get(r.ContentLength, anonymous)
	c.begin(s, w, r, anonymous)
	defer c.end()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// ready returns why the daemon should get no requests; nil if it should get them.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return &problem.Error{Code: problem.NotReady, Detail: "the daemon is stopping"}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.engine.Ready(ctx); err != nil {
		return &problem.Error{Code: problem.NotReady, Detail: err.Error(), Cause: err}
	}
	return nil
}

// What the other fronts of a daemon share with this one, so that all calls are counted together,
// refused for the same reasons, and bounded by one budget.

// Judge judges the batches of all fronts.
func (s *Server) Judge() *batch.Judge { return &s.judge }

// Access decides who may call.
func (s *Server) Access() *access.Guard { return s.access }

// Bodies bounds the bytes that the calls of all fronts have in memory.
func (s *Server) Bodies() *budget.Shared { return s.held }
