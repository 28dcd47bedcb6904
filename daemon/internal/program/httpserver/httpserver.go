// Package httpserver serves a program's handler over HTTP: on its own address or on the sockets
// of systemd, with TLS or without, as many connections as there may be, and ends without losing
// a request. It puts together what the packages beside it do; what is answered is the program's.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/connlimit"
	"github.com/cr-clawer/urifilter/daemon/internal/program/drain"
	"github.com/cr-clawer/urifilter/daemon/internal/program/gather"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlshint"
)

const (
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Options say how a program serves.
type Options struct {
	listen.Options
	Certificate *secret.Certificate // nil: no TLS
	// Public: callers present no token, and nothing that is told is secret.
	Public bool
	Log    *slog.Logger
}

// Server holds sockets, and serves on them once it is told what.
type Server struct {
	opt       Options
	listeners []net.Listener
	http      *http.Server
	drain     *drain.Drainer
	broken    chan error
	serving   sync.WaitGroup
}

// Open takes the sockets, so that a port that is taken is known before anything else is begun.
func Open(o Options) (*Server, error) {
	o.Options.Log = o.Log
	listeners, err := listen.Open(o.Options)
	if err != nil {
		return nil, err
	}
	s := &Server{opt: o, listeners: listeners}
	s.warnPlainText()
	return s, nil
}

// warnPlainText warns where tokens cross a network that others may listen to.
func (s *Server) warnPlainText() {
	if !s.opt.Guarded || s.opt.Public || s.opt.Certificate != nil {
		return
	}
	for _, l := range s.listeners {
		if listen.Reached(l) {
			s.opt.Log.Warn("tokens and items travel in plain text on this address: set tls.cert_file and tls.key_file, or let only what has TLS in front reach it", "address", l.Addr().String())
		}
	}
}

// Handling says what is served.
type Handling struct {
	Handler       http.Handler
	HeaderTimeout time.Duration
	// Connections and PerAddress bound how many may be open, 0: no limit; half of Connections
	// an address. As many as the process may have files open for count at most, a quarter less.
	Connections, PerAddress int
	// Overloaded is the body, problem+json, that a connection past a limit is answered.
	Overloaded []byte
	Registry   prometheus.Registerer // puts the program's name before those of metrics
}

// Handle readies what Serve serves. It is called once, before Serve and Drain.
func (s *Server) Handle(h Handling) {
	s.http = &http.Server{
		Handler:           h.Handler,
		ReadHeaderTimeout: h.HeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
	}
	s.drain = drain.New(s.http)
	of := s.http.ConnContext
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return gather.Context(of(ctx, c), c) }
	s.broken = make(chan error, len(s.listeners))
	limiter := connlimit.New(s.connections(h), h.Registry)
	for i, l := range s.listeners {
		encrypted := s.opt.Certificate != nil
		// Before anybody can ask for a stop, or it would not end these.
		l = limiter.Listener(l, encrypted)
		if encrypted {
			l = tlshint.Listener(l)
		} else {
			l = gather.Listener(l)
		}
		s.listeners[i] = s.drain.Listener(l, encrypted)
	}
}

func (s *Server) connections(h Handling) connlimit.Options {
	all := h.Connections
	if most := openFiles() / 4 * 3; most > 0 && all > most {
		s.opt.Log.Warn("the process may not have so many files open as limits.connections asks for; raise LimitNOFILE of the service, or ulimit -n",
			"limits.connections", all, "limit", most)
		all = most
	}
	perAddress := h.PerAddress
	if perAddress == 0 {
		perAddress = (all + 1) / 2
	}
	return connlimit.Options{All: all, PerAddress: perAddress, Log: s.opt.Log, Answer: h.Overloaded}
}

// Serve begins to serve. What goes wrong later comes from Broken.
func (s *Server) Serve() {
	for _, l := range s.listeners {
		s.serving.Go(func() {
			inner := l
			if s.opt.Certificate != nil {
				inner = tls.NewListener(l, s.opt.Certificate.Config())
			}
			if err := s.drain.Served(s.http.Serve(inner)); err != nil {
				s.broken <- fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
		})
	}
}

// Broken tells of a socket that cannot be served on any more.
func (s *Server) Broken() <-chan error { return s.broken }

// Drain answers what is under way and what still comes, as [drain.Drainer.Drain], and cuts off
// what takes longer than patience.
func (s *Server) Drain(linger, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if cut := s.drain.Drain(ctx, linger); cut > 0 {
		s.opt.Log.Warn("requests were cut off", "connections", cut, "after", patience)
	}
}

// Close frees the sockets, and waits for what Serve began.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// Addr is the address of the first socket.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// URL is where the program is called.
func (s *Server) URL() string {
	scheme := "http"
	if s.opt.Certificate != nil {
		scheme = "https"
	}
	return scheme + "://" + s.Addr().String()
}
