package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrongport"
)

// Options say what a Server serves, and within which limits. All fields but Clock are required.
type Options struct {
	Engine *engine.Engine
	// Judge judges the batches of all fronts, so that they are counted together.
	Judge *batch.Judge
	// Access decides who may call.
	Access *access.Guard
	// Bodies bounds the bytes that all calls have in memory.
	Bodies *budget.Shared
	// HTTP is the URL of the daemon's HTTP interface, for callers that take this port for it.
	HTTP   string
	Limits Limits
	// AllowFlush lets an admin drop all filters with FLUSHALL or FLUSHDB.
	AllowFlush bool
	// Defaults are for parameters of filters that a command does not give.
	Defaults configs.Defaults
	// TLS is for connections that speak it; nil: there are none.
	TLS      *tls.Config
	Version  string
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Limits bound commands, as those of HTTP bound requests.
type Limits struct {
	Items        int           // of one command
	ItemBytes    int           // of one item
	CommandBytes int           // of one command; never more than 4 GiB
	Timeout      time.Duration // for which a client may read nothing of its answer, or send nothing more of a command
}

// Pauses before another connection is accepted, after one could not be: those of net/http.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Server serves RESP on connections. It is safe for concurrent use.
type Server struct {
	opt      Options
	commands map[string]*command
	families map[string]string // of commands, by the kind of filter
	metrics  *metrics
	started  time.Time
	ids      atomic.Int64
	teller   wrongport.Teller

	ctx    context.Context // of commands; ended by Cut
	cancel context.CancelFunc

	mu       sync.Mutex
	draining bool
	conns    map[*conn]struct{}
	all      sync.WaitGroup
}

// New makes a Server and registers its metrics.
func New(o Options) *Server {
	o.Limits.CommandBytes = min(o.Limits.CommandBytes, mostBytes)
	s := &Server{opt: o, commands: newCommands(), families: newFamilies(), started: time.Now(), conns: map[*conn]struct{}{}}
	s.metrics = newMetrics(o.Registry, s.commands)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve serves the connections of a listener, until it is closed, which is no error. With
// encrypted the connections speak TLS. While the process has as many files open as it may have,
// further connections wait.
func (s *Server) Serve(l net.Listener, encrypted bool) error {
	pause := firstPause
	for {
		raw, err := l.Accept()
		if err != nil {
			if s.isDraining() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if passes, ok := errors.AsType[interface {
				error
				Temporary() bool
			}](err); !ok || !passes.Temporary() {
				return err
			}
			s.opt.Log.Warn("no connection can be accepted; trying again", "address", l.Addr().String(), "in", pause, "err", err)
			time.Sleep(pause)
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
		c := newConn(s, raw, encrypted)
		if !s.add(c) {
			_ = raw.Close()
			continue
		}
		go func() {
			defer s.remove(c)
			c.serve()
		}()
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.conns[c] = struct{}{}
	s.all.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.all.Done()
}

// Drain ends all connections: each after the commands that it has received whole are answered.
// Those that take longer than patience are cut off; cut says how many.
func (s *Server) Drain(patience time.Duration) (cut int) {
	s.mu.Lock()
	s.draining = true
	for c := range s.conns {
		_ = c.raw.SetReadDeadline(time.Unix(1, 0)) // wakes those that wait for a command
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.all.Wait()
		close(done)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
		return 0
	case <-late.C:
	}
	s.cancel()
	s.mu.Lock()
	cut = len(s.conns)
	for c := range s.conns {
		_ = c.raw.Close()
	}
	s.mu.Unlock()
	<-done
	return cut
}

// metrics count commands.
type metrics struct {
	commands *prometheus.CounterVec
	byName   map[string]prometheus.Counter // of commands that succeeded
}

func newMetrics(registry prometheus.Registerer, commands map[string]*command) *metrics {
	m := &metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_resp_commands_total",
			Help: "Commands of Redis clients, by name and result: ok or error.",
		}, []string{"command", "result"}),
		byName: map[string]prometheus.Counter{},
	}
	for name := range commands {
		m.byName[name] = m.commands.WithLabelValues(name, "ok")
	}
	registry.MustRegister(m.commands)
	return m
}
