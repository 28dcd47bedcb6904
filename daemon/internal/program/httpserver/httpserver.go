// Package httpserver serves a program's handler over HTTP: on its own address or on sockets from
// systemd, with TLS or without, with a limit on connections, and stops without losing a request.
// It combines the packages beside it; the program decides the answers.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs/address"
	"github.com/cr-clawer/urifilter/daemon/internal/program/connlimit"
	"github.com/cr-clawer/urifilter/daemon/internal/program/drain"
	"github.com/cr-clawer/urifilter/daemon/internal/program/gather"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrongport"
)

const (
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Options say how a program serves.
type Options struct {
	listen.Options
	Certificate *secret.Certificate // nil: no TLS
	// Public: callers present no token, and no answer is secret.
	Public bool
	Log    *slog.Logger
}

// Server holds sockets, and serves on them after Handle and Serve.
type Server struct {
	opt       Options
	listeners []net.Listener
	handed    bool // by systemd, which opened them
	http      *http.Server
	drain     *drain.Drainer
	redis     string // where clients of Redis are served
	broken    chan error
	serving   sync.WaitGroup
}

// Open opens the sockets, so that a port in use is noticed before anything else begins.
func Open(o Options) (*Server, error) {
	o.Options.Log = o.Log
	listeners, handed, err := listen.Open(o.Options)
	if err != nil {
		return nil, err
	}
	s := &Server{opt: o, listeners: listeners, handed: handed}
	s.warnPlainText()
	return s, nil
}

// warnPlainText warns if tokens cross a network where others may listen.
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
	// an address. See [Connections].
	Connections, PerAddress int
	// Overloaded is the body, problem+json, of the answer to a connection beyond a limit.
	Overloaded []byte
	// Redis is where clients of Redis are served, "" nowhere: they are told so here.
	Redis    string
	Registry prometheus.Registerer // adds the program's name before those of metrics
}

// Handle prepares the server that Serve runs. It is called once, before Serve and Drain.
func (s *Server) Handle(h Handling) {
	s.http = &http.Server{
		Handler:           h.Handler,
		ReadHeaderTimeout: h.HeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
	}
	s.redis = h.Redis
	if s.opt.Certificate != nil {
		s.http.Protocols, s.http.Handler = wrongport.Inside(), tellTLS(h.Handler)
	}
	s.drain = drain.New(s.http)
	s.broken = make(chan error, len(s.listeners))
	limiter := connlimit.New(s.connections(h), h.Registry)
	for i, l := range s.listeners {
		encrypted := s.opt.Certificate != nil
		// Before any stop can be requested, as the stop would miss these otherwise.
		if !encrypted {
			l = gather.Listener(l) // first: it writes to a connection of package net
		}
		l = limiter.Listener(l, encrypted)
		l = wrongport.Listener(l, encrypted, h.Redis)
		s.listeners[i] = s.drain.Listener(l, encrypted)
	}
}

// tellTLS tells requests of the TLS below package http, which does not see it.
func tellTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := wrap.Of[*tls.Conn](r.Context()); c != nil && r.TLS == nil {
			state := c.ConnectionState()
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}

// Connections returns how many of those that the settings want (0: no limit) may be open at a port:
// three quarters of the files that the process may have open at most, for all of its ports together.
// redis is where clients of Redis are served, "": nowhere.
func Connections(want int, redis string) int {
	limit := openFiles() / 4 * 3
	if redis != "" {
		limit /= 2
	}
	if limit > 0 && want > limit {
		return limit
	}
	return want
}

func (s *Server) connections(h Handling) connlimit.Options {
	all := Connections(h.Connections, h.Redis)
	if all != h.Connections {
		s.opt.Log.Warn("the process may not have so many files open as limits.connections asks for; raise LimitNOFILE of the service, or ulimit -n",
			"limits.connections", h.Connections, "limit", all)
	}
	return connlimit.Options{All: all, PerAddress: h.PerAddress, Log: s.opt.Log, Answer: h.Overloaded}
}

// Serve begins to serve. Broken reports later failures.
func (s *Server) Serve() {
	for _, l := range s.listeners {
		s.serving.Go(func() {
			inner := l
			if s.opt.Certificate != nil {
				inner = wrongport.Encrypted(l, s.opt.Certificate.Config(), s.redis)
			}
			if err := s.drain.Served(s.http.Serve(inner)); err != nil {
				s.broken <- fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
		})
	}
}

// Broken reports a socket that can no longer be served.
func (s *Server) Broken() <-chan error { return s.broken }

// Drain answers running and late requests, like [drain.Drainer.Drain], and cuts off those that
// take longer than patience.
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

// URL is the URL at which the program is called on its own machine.
func (s *Server) URL() string {
	at := s.Addr().String()
	// A socket of ours for all interfaces says [::] even if the settings say 0.0.0.0, and a machine
	// without IPv6 cannot call ::1. One of systemd may be for IPv6 only, whatever the settings say.
	if tcp, ok := s.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() && !s.handed {
		host, _, _ := net.SplitHostPort(s.opt.Address)
		at = net.JoinHostPort(host, strconv.Itoa(tcp.Port))
	}
	return address.URL(s.opt.Certificate != nil, at)
}
