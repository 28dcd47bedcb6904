package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/front/resp"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/connlimit"
	"github.com/cr-clawer/urifilter/daemon/internal/program/httpserver"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
)

// respPort is the port for Redis clients.
type respPort struct {
	front     *resp.Server
	listeners []net.Listener
	encrypted bool
	broken    chan error
	serving   sync.WaitGroup
	log       *slog.Logger
}

// openRESP opens the sockets of the port, so that one in use is noticed before anything else
// begins; nil: the settings want none.
func openRESP(cfg configs.Config, encrypted bool, log *slog.Logger) (*respPort, error) {
	if cfg.RESP.Listen == "" {
		return nil, nil
	}
	listeners, _, err := listen.Open(listen.Options{
		Program: "urifilter", Socket: listen.SocketRESP, Address: cfg.RESP.Listen, Guarded: cfg.Auth.TokensFile != "", Guard: "auth.tokens_file", Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("resp.listen: %w", err)
	}
	return &respPort{listeners: listeners, encrypted: encrypted, broken: make(chan error, len(listeners)), log: log}, nil
}

// handleRESP makes the front, which shares with HTTP what bounds and counts calls.
func (d *Server) handleRESP(registry *prometheus.Registry) {
	p, limits := d.resp, d.cfg.Limits
	o := resp.Options{
		Engine: d.engine, Judge: d.api.Judge(), Access: d.api.Access(), Bodies: d.api.Bodies(), HTTP: d.serving.URL(),
		Limits:     resp.Limits{Items: limits.Items, ItemBytes: int(limits.ItemBytes), CommandBytes: int(limits.BodyBytes), Timeout: limits.BodyTimeout},
		AllowFlush: d.cfg.RESP.AllowFlush, Defaults: d.cfg.Defaults(), Version: command.ReadVersion().Version, Log: d.log, Registry: registry,
	}
	if p.encrypted {
		o.TLS = d.secrets.cert.Config()
		o.TLS.NextProtos = []string{"http/1.1"} // who takes the port for that of HTTP understands the answer
	}
	p.front = resp.New(o)
	limiter := connlimit.New(connlimit.Options{
		All: httpserver.Connections(limits.Connections, p.listeners[0].Addr().String()), PerAddress: limits.ConnectionsPerAddress, Plain: true, Log: d.log,
		Answer: []byte("-ERR max number of clients reached: see limits.connections and limits.connections_per_address of the daemon\r\n"),
	}, prometheus.WrapRegistererWithPrefix("urifilter_resp_", registry))
	for i, l := range p.listeners {
		p.listeners[i] = limiter.Listener(l, p.encrypted)
	}
}

func (p *respPort) serve() {
	for _, l := range p.listeners {
		p.serving.Go(func() {
			if err := p.front.Serve(l, p.encrypted); err != nil {
				p.broken <- fmt.Errorf("serve RESP on %s: %w", l.Addr(), err)
			}
		})
	}
}

// drain stops accepting, and answers what has been received.
func (p *respPort) drain(patience time.Duration) {
	_ = p.close()
	if p.front == nil {
		return
	}
	if cut := p.front.Drain(patience); cut > 0 {
		p.log.Warn("commands were cut off", "connections", cut, "after", patience)
	}
}

func (p *respPort) close() error {
	var errs []error
	for _, l := range p.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	p.serving.Wait()
	return errors.Join(errs...)
}
