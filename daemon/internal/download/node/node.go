// Package node is a running uridownloader: it opens store and filter as the settings say, and
// serves the roles that this process has.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/master"
	"github.com/cr-clawer/urifilter/daemon/internal/download/metered"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/program/httpserver"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

const (
	// stopLinger is how long a stop keeps a connection that is silent.
	stopLinger = 2 * time.Second
	// stopRest is what a stop may take beside requests and downloads.
	stopRest   = 30 * time.Second
	stopMargin = 10 * time.Second
	// readyIn is how long the store may take to say that it is there.
	readyIn = 2 * time.Second
)

// Node is one process with all roles on the embedded store.
type Node struct {
	cfg      settings.Config
	log      *slog.Logger
	tokens   *configs.TokenFile
	cert     *secret.Certificate
	serving  *httpserver.Server
	store    download.Store
	filter   seen.Filter
	fetcher  *fetch.Fetcher
	dispatch *dispatch.Dispatcher
	worker   *worker.Worker
	stopping *lifecycle.StopGuard
}

// Open opens everything: first the port, so that a mistake there is told at once.
func Open(ctx context.Context, cfg settings.Config, log *slog.Logger) (_ *Node, err error) {
	n := &Node{cfg: cfg, log: log, stopping: lifecycle.NewStopGuard(cfg.ShutdownTimeout+stopRest-stopMargin, log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	defer lifecycle.KeepStarting()()
	lifecycle.Notify(lifecycle.Status("Starting: opening the store"))
	var warnings []string
	if n.tokens, warnings, err = configs.OpenTokens(cfg.Auth.TokensFile, settings.Scopes()); err != nil {
		return nil, err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	if cfg.TLS.CertFile != "" {
		if n.cert, err = secret.OpenCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile); err != nil {
			return nil, err
		}
	}
	n.serving, err = httpserver.Open(httpserver.Options{
		Options:     listen.Options{Program: "uridownloader", Address: cfg.Listen, Guarded: n.tokens != nil, Guard: "auth.tokens_file"},
		Certificate: n.cert, Log: log,
	})
	if err != nil {
		return nil, err
	}
	start := time.Now()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	prefixed := prometheus.WrapRegistererWithPrefix("uridownloader_", registry)
	if n.store, err = openStore(ctx, cfg, prefixed); err != nil {
		return nil, err
	}
	if n.filter, err = openFilter(ctx, cfg, log); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	owner := fmt.Sprintf("%s:%d:%s", host, os.Getpid(), rand.Text()[:8])
	if n.fetcher, err = openFetcher(cfg, log); err != nil {
		return nil, err
	}
	n.dispatch = dispatch.New(dispatch.Options{
		Store: n.store, Owner: owner, Every: cfg.Dispatch.Every, MaxReady: cfg.Dispatch.Ready, KeepLogs: cfg.KeepLogs,
		HandedOut: func() { n.worker.Wake() }, Log: log, Registry: prefixed,
	})
	n.worker = newWorker(cfg, n.store, n.fetcher, owner, host, log, prefixed, n.dispatch.Wake)
	n.serving.Handle(httpserver.Handling{
		Handler: master.New(master.Options{
			Store: n.store, Filter: n.filter, Added: n.dispatch.Wake, Ready: n.ready,
			JobBytes: int64(cfg.Limits.JobBytes), BodyTimeout: cfg.Limits.BodyTimeout,
			Authenticate: n.tokens.Authenticate(), AllowedHosts: cfg.Auth.AllowedHosts,
			Log: log, Registry: registry,
		}),
		HeaderTimeout: cfg.Limits.HeaderTimeout, Connections: cfg.Limits.Connections,
		Overloaded: master.Overloaded(), Registry: prefixed,
	})
	log.Info("ready", "address", n.serving.URL(), "store", cfg.Store, "data_dir", cfg.DataDir, "tokens", n.tokens != nil,
		"allow_private", cfg.AllowPrivate, "took", time.Since(start).Round(time.Millisecond))
	return n, nil
}

// openStore opens the store of this machine, whose calls are measured.
func openStore(ctx context.Context, cfg settings.Config, registry prometheus.Registerer) (download.Store, error) {
	transactions := prometheus.NewCounter(prometheus.CounterOpts{Name: "store_transactions_total",
		Help: "Transactions of the embedded store, each with one sync of the disk."})
	registry.MustRegister(transactions)
	store, err := sqlite.Open(ctx, sqlite.Options{
		Dir: filepath.Join(cfg.DataDir, "store"), EndLeases: true, Committed: func(int) { transactions.Inc() },
	})
	var inUse *durable.InUseError
	switch {
	case errors.As(err, &inUse):
		return nil, fmt.Errorf("%w\nhint: one process uses a data directory at a time; stop that one, or give this one a --data-dir of its own", err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%w\nhint: run as the user that owns %s, or name another folder with --data-dir", err, cfg.DataDir)
	case err != nil:
		return nil, err // not a typed nil
	}
	return metered.New(store, registry), nil
}

func openFilter(ctx context.Context, cfg settings.Config, log *slog.Logger) (seen.Filter, error) {
	if cfg.Filter.URL == "" {
		own, err := seen.Open(ctx, filepath.Join(cfg.DataDir, "filter"), log)
		if err != nil {
			return nil, err
		}
		return own, nil
	}
	token, err := secret.Read(cfg.Filter.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("filter.token_file: %w", err)
	}
	daemon, err := client.New(cfg.Filter.URL, client.WithToken(token), client.WithLogger(log))
	if err != nil {
		return nil, fmt.Errorf("filter.url: %w", err)
	}
	return seen.Call(daemon), nil
}

// Addr is where the master is called.
func (n *Node) Addr() net.Addr { return n.serving.Addr() }

func (n *Node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	_, err := n.store.Now(ctx)
	return err
}

// Run serves until ctx ends, which is no error, or something fails. Each signal of reload makes
// it read the tokens and the certificate anew.
func (n *Node) Run(ctx context.Context, reload <-chan os.Signal) (err error) {
	defer n.stopping.Disarm()
	defer func() { err = errors.Join(err, n.close()) }()
	inner, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	failed := make(chan error, 2)
	work.Go(func() { failed <- n.dispatch.Run(inner) })
	work.Go(func() { failed <- n.worker.Run(inner) })
	n.serving.Serve()
	lifecycle.Notify(lifecycle.Ready, lifecycle.Status("Serving %s", n.serving.URL()))
	work.Go(func() { lifecycle.PingWatchdog(inner, func() {}, n.log) })
	for {
		select {
		case <-reload:
			lifecycle.Reloading()
			n.reload()
			lifecycle.Notify(lifecycle.Ready)
		case err := <-n.serving.Broken():
			n.stopping.Arm()
			return err
		case err := <-failed:
			if err != nil {
				n.stopping.Arm()
				return err
			}
		case <-ctx.Done():
			start := time.Now()
			n.log.Info("stopping", "reason", context.Cause(ctx).Error())
			n.stopping.Arm()
			lifecycle.Notify(lifecycle.Stopping, lifecycle.Status("Stopping: ending the downloads under way"), lifecycle.MoreTime(n.cfg.ShutdownTimeout+stopRest))
			cancel() // the worker ends or gives back what it has, while calls are still answered
			n.serving.Drain(stopLinger, n.cfg.ShutdownTimeout)
			work.Wait()
			n.log.Info("stopped", "took", time.Since(start).Round(time.Millisecond))
			return nil
		}
	}
}

func (n *Node) reload() {
	if n.tokens != nil {
		warnings, err := n.tokens.Reload()
		for _, w := range warnings {
			n.log.Warn(w)
		}
		n.told("tokens", err)
	}
	if n.cert != nil {
		n.told("certificate", n.cert.Reload())
	}
}

func (n *Node) told(what string, err error) {
	if err != nil {
		n.log.Error(what+" not reloaded; those read before stay in use", "err", err)
		return
	}
	n.log.Info(what + " reloaded")
}

// close lets go of everything, in the other order.
func (n *Node) close() error {
	var errs []error
	if n.serving != nil {
		errs = append(errs, n.serving.Close())
	}
	if n.fetcher != nil {
		n.fetcher.Close()
	}
	if n.filter != nil {
		errs = append(errs, n.filter.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
