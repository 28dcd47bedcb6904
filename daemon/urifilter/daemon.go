package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sdnotify "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/api"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/keeper"
)

// Limits of a connection that are nobody's business to set.
const (
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	warnFullEvery  = 10 * time.Second
	archiveClose   = 5 * time.Second
	// failedGrace lets the answers that tell of a failed store reach their callers.
	failedGrace = time.Second
)

// daemon is the running service: newDaemon opens everything, run serves until the
// context ends or the store fails, and closes everything.
type daemon struct {
	cfg      configs.Config
	log      *slog.Logger
	listener net.Listener
	store    engine.Store
	engine   *engine.Engine
	link     *keeper.Link   // nil: no archive
	keeper   *keeper.Keeper // nil: no archive
	api      *api.Server
	http     *http.Server
}

// newDaemon opens the port, so that a mistake there is told at once and callers queue
// instead of being refused, and then the store.
func newDaemon(ctx context.Context, cfg configs.Config, log *slog.Logger) (_ *daemon, err error) {
	d := &daemon{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	authenticate, err := newTokens(cfg.Auth, log)
	if err != nil {
		return nil, err
	}
	if d.listener, err = listen(cfg); err != nil {
		return nil, err
	}
	start := time.Now()
	if d.store, err = openStore(cfg, log); err != nil {
		return nil, err
	}
	settings := engine.Settings{Filters: specs(cfg), StartEmpty: cfg.MongoDB.IfUnreachable == "empty", Log: log}
	if d.link = newLink(cfg, log); d.link != nil {
		settings.Archive = d.link
		healFrom(d.store, d.link)
	}
	if d.engine, err = engine.OpenWith(ctx, d.store, settings); err != nil {
		return nil, err
	}
	options := api.Options{
		Engine:   d.engine,
		Logger:   log,
		Registry: prometheus.NewRegistry(),
		Limits: api.Limits{
			BodyBytes:   int64(cfg.Limits.BodyBytes),
			Items:       cfg.Limits.Items,
			ItemBytes:   int(cfg.Limits.ItemBytes),
			BodyTimeout: cfg.Limits.BodyTimeout,
		},
		Authenticate: authenticate,
		Capacity:     cfg.URINumScale,
		ErrorRate:    cfg.AcceptErrorRate,
		Version:      readVersion().Version,
	}
	if d.link != nil {
		d.keeper = keeper.New(d.engine, d.link, options.Registry, log)
		options.Keeper = d.keeper
	}
	d.api = api.New(options)
	d.http = &http.Server{
		Handler:           d.api,
		ReadHeaderTimeout: cfg.Limits.HeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	state := "ready"
	if len(d.engine.Waiting()) > 0 {
		state = "serving; not ready before the archive was asked for filters that the store lacks"
	}
	log.Info(state, "address", d.url(), "filters", len(d.engine.Filters()), "waiting", len(d.engine.Waiting()), "store", cfg.Store,
		"durability", cfg.Durability, "data_dir", cfg.DataDir, "tokens", authenticate != nil, "took", time.Since(start).Round(time.Millisecond))
	return d, nil
}

// listen takes the socket that systemd hands over, or opens the configured one.
func listen(cfg configs.Config) (net.Listener, error) {
	handed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("sockets handed over by systemd: %w", err)
	}
	var l net.Listener
	switch len(handed) {
	case 0:
		if l, err = net.Listen("tcp", cfg.Listen); err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, fmt.Errorf("%w\nhint: is urifilter already running there? choose another port with --listen", err)
			}
			return nil, err
		}
	case 1:
		l = handed[0]
	default:
		return nil, fmt.Errorf("systemd handed over %d sockets, want one", len(handed))
	}
	if cfg.TLS.CertFile == "" {
		return l, nil
	}
	cert, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tls: %w", err), l.Close())
	}
	return tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

func specs(cfg configs.Config) []engine.Spec {
	var all []engine.Spec
	for _, f := range cfg.Specs() {
		all = append(all, engine.Spec(f))
	}
	return all
}

func (d *daemon) url() string {
	scheme := "http"
	if d.cfg.TLS.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + d.listener.Addr().String()
}

// run serves until ctx ends, which is no error, or something fails.
func (d *daemon) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	var work sync.WaitGroup
	defer work.Wait()
	inner, cancel := context.WithCancel(context.Background())
	defer cancel()
	work.Go(func() { d.warnFull(inner) })
	if d.keeper != nil {
		work.Go(func() { d.keeper.Settle(inner) })
		if d.cfg.Writeback.Interval > 0 {
			work.Go(func() { d.keeper.Every(inner, d.cfg.Writeback.Interval) })
		}
	}
	work.Go(func() { d.engine.Follow(inner) })

	served := make(chan error, 1)
	go func() { served <- d.http.Serve(d.listener) }()
	_, _ = sdnotify.SdNotify(false, sdnotify.SdNotifyReady)

	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", d.url(), err)
	case <-d.store.Failed():
		d.shutdown(failedGrace)
		<-served
		return fmt.Errorf("stopped because the store failed: %w", d.store.Ready(context.Background()))
	case <-ctx.Done():
		d.log.Info("stopping", "reason", context.Cause(ctx).Error())
		_, _ = sdnotify.SdNotify(false, sdnotify.SdNotifyStopping)
		d.shutdown(d.cfg.ShutdownTimeout)
		<-served
		d.log.Info("stopped")
		return nil
	}
}

// shutdown fails readiness, stops accepting, and waits for the requests under way.
func (d *daemon) shutdown(patience time.Duration) {
	d.api.Drain()
	if d.keeper != nil {
		d.keeper.Stop() // a copy may take minutes, and can be made again
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.http.Shutdown(ctx); err != nil {
		d.log.Warn("requests were cut off", "after", patience)
		_ = d.http.Close()
	}
}

func (d *daemon) warnFull(ctx context.Context) {
	tick := time.NewTicker(warnFullEvery)
	defer tick.Stop()
	for {
		d.engine.WarnFull(d.log)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// close lets go of what newDaemon opened, in the opposite order.
func (d *daemon) close() error {
	var errs []error
	if d.link != nil {
		ctx, cancel := context.WithTimeout(context.Background(), archiveClose)
		errs = append(errs, d.link.Close(ctx))
		cancel()
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.listener != nil {
		if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
