package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/status"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/diskspace"
	"github.com/cr-clawer/urifilter/daemon/internal/program/httpserver"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/memlimit"
)

// Times that need no setting.
const (
	warnFullEvery = 10 * time.Second
	// stopLinger is how long a stop keeps a silent connection: a client that sends more often
	// is told in an answer to open another connection.
	stopLinger = 2 * time.Second
	// stopRest is how long a stop may take besides its requests: for copies to end, files to close.
	stopRest     = time.Minute
	archiveClose = 5 * time.Second
	// failedGrace lets the answers that report a failed store reach their callers.
	failedGrace = time.Second
	// stopMargin is how much earlier than the service manager the daemon itself ends a hanging
	// stop, so that the log shows where it hung.
	stopMargin = 10 * time.Second
)

// Server is the running daemon.
type Server struct {
	cfg      configs.Config
	log      *slog.Logger
	secrets  *secrets
	serving  *httpserver.Server
	resp     *respPort // nil: no port for Redis clients
	store    engine.Store
	engine   *engine.Engine
	link     *backup.Link   // nil: no archive
	backup   *backup.Copier // nil: no archive
	api      *api.Server
	stopping *lifecycle.StopGuard
	memory   configs.Memory
}

// New opens everything: first the port, so that a mistake there is reported at once and callers
// queue instead of being refused, and then the store.
func New(ctx context.Context, cfg configs.Config, log *slog.Logger) (_ *Server, err error) {
	d := &Server{cfg: cfg, log: log, stopping: lifecycle.NewStopGuard(cfg.ShutdownTimeout+stopRest-stopMargin, log)}
	disarm := context.AfterFunc(ctx, d.stopping.Arm) // a start may hang, too
	defer func() {
		if disarm(); err != nil {
			d.stopping.Disarm()
		}
	}()
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	defer lifecycle.KeepStarting()()
	lifecycle.Notify(lifecycle.Status("Starting: %s", loading))
	if d.secrets, err = openSecrets(cfg, log); err != nil {
		return nil, err
	}
	d.serving, err = httpserver.Open(httpserver.Options{
		Options:     listen.Options{Program: "urifilter", Address: cfg.Listen, Guarded: cfg.Auth.TokensFile != "", Guard: "auth.tokens_file"},
		Certificate: d.secrets.cert, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if d.resp, err = openRESP(cfg, d.secrets.cert != nil, log); err != nil {
		return nil, err
	}
	start := time.Now()
	allowed, by := memlimit.Allowed()
	d.memory = cfg.Limits.Memory(allowed)
	collector := memlimit.NewCollector(allowed)
	log.Info("memory", "allowed_bytes", allowed, "allowed_by", by, "memory_bytes", d.memory.Total, "of_it_for_bodies", d.memory.Bodies)
	if allowed > 0 && d.memory.Total > allowed {
		log.Warn("limits.memory_bytes is more than the process may have: the system may kill it before the limit is reached", "memory_bytes", d.memory.Total, "allowed_bytes", allowed, "allowed_by", by)
	}
	if d.store, err = openStore(ctx, cfg, d.memory, true, log); err != nil {
		return nil, err
	}
	settings := engine.Settings{Filters: Specs(cfg), StartEmpty: cfg.MongoDB.IfUnreachable == "empty", FilterBytes: uint64(cfg.Limits.FilterBytes), MemoryBytes: d.memory.Filters, Log: log,
		Memory: collector.Leave, WorkBytes: d.memory.Work}
	if d.link, err = OpenLink(cfg, log); err != nil {
		return nil, err
	}
	if d.link != nil {
		settings.Archive = d.link
		resyncFrom(d.store, d.link)
	}
	if d.engine, err = engine.Open(ctx, d.store, settings); err != nil {
		return nil, err
	}
	spool, err := spoolDir(cfg, log)
	if err != nil {
		return nil, err
	}
	redis := ""
	if d.resp != nil {
		redis = d.resp.listeners[0].Addr().String()
	}
	options := api.Options{
		Engine:       d.engine,
		Logger:       log,
		Registry:     prometheus.NewRegistry(),
		Limits:       cfg.Limits,
		Authenticate: d.secrets.tokens.Authenticate(),
		AllowedHosts: cfg.Auth.AllowedHosts,
		Connections:  httpserver.Connections(cfg.Limits.Connections, redis),

		ProtectMetrics: cfg.Auth.ProtectMetrics,
		Defaults:       cfg.Defaults(),
		Version:        command.ReadVersion().Version,
		TempDir:        spool,
		About:          d.about(),
	}
	options.Limits.HeldBytes = configs.Size(d.memory.Bodies)
	if d.link != nil {
		d.backup = backup.New(d.engine, d.link, options.Registry, log)
		options.Backup = d.backup
	}
	if c, ok := d.store.(prometheus.Collector); ok {
		options.Registry.MustRegister(c)
	}
	prometheus.WrapRegistererWithPrefix("urifilter_", options.Registry).MustRegister(diskspace.Metrics(cfg.DataDir)...)
	d.api = api.New(options)
	d.serving.Handle(httpserver.Handling{
		Handler: d.api, HeaderTimeout: cfg.Limits.HeaderTimeout,
		Connections: cfg.Limits.Connections, PerAddress: cfg.Limits.ConnectionsPerAddress,
		Overloaded: api.Overloaded("too many connections are open: see limits.connections and limits.connections_per_address of the daemon"),
		Redis:      redis,
		Registry:   prometheus.WrapRegistererWithPrefix("urifilter_", options.Registry),
	})
	if d.resp != nil {
		d.handleRESP(options.Registry)
	}
	state := "ready"
	if len(d.engine.Waiting()) > 0 {
		state = "serving; not ready before the archive was asked for filters that the store lacks"
	}
	log.Info(state, append(d.inUse(), "took", time.Since(start).Round(time.Millisecond))...)
	return d, nil
}

// about is what the status page tells of the settings.
func (d *Server) about() status.About {
	a := status.About{Store: d.cfg.Store + ", durability " + d.cfg.Durability, WritebackEvery: d.cfg.Writeback.Interval}
	if d.cfg.Store == "redis" {
		a.Store = "redis, durability " + d.cfg.Redis.Durability
	}
	if d.cfg.MySQL.Addr != "" {
		a.Store += "; mysql"
	}
	if d.link != nil {
		a.Archive = d.link
	}
	if d.resp != nil {
		a.RESP = d.resp.listeners[0].Addr().String()
	}
	return a
}

// inUse returns the settings for the log: those that make a difference.
func (d *Server) inUse() []any {
	args := []any{"address", d.serving.URL(), "filters", len(d.engine.Filters())}
	if n := len(d.engine.Waiting()); n > 0 {
		args = append(args, "waiting", n)
	}
	if d.resp != nil {
		args = append(args, "resp", d.resp.listeners[0].Addr().String())
	}
	args = append(args, "store", d.cfg.Store)
	if d.cfg.Store == "redis" {
		args = append(args, "redis", strings.Join(d.cfg.Redis.Addrs, ","), "durability", d.cfg.Redis.Durability)
	} else {
		args = append(args, "data_dir", d.cfg.DataDir, "durability", d.cfg.Durability)
	}
	if d.cfg.MySQL.Addr != "" {
		args = append(args, "mysql", d.cfg.MySQL.Addr)
	}
	if d.link != nil {
		args = append(args, "archive", d.cfg.MongoDB.Database)
	}
	return append(args, "tokens", d.cfg.Auth.TokensFile != "")
}

// Specs returns the filters of the settings.
func Specs(cfg configs.Config) []engine.Spec {
	var all []engine.Spec
	for _, f := range cfg.Specs() {
		all = append(all, engine.Spec(f))
	}
	return all
}

// Addr returns the address of the first socket.
func (d *Server) Addr() net.Addr { return d.serving.Addr() }

// Run serves until ctx ends, which is no error, or something fails. On each signal from
// reload it reloads the tokens and the certificate.
func (d *Server) Run(ctx context.Context, reload <-chan os.Signal) (err error) {
	defer d.stopping.Disarm()
	defer func() { err = errors.Join(err, d.close()) }()
	var work sync.WaitGroup
	defer work.Wait()
	inner, cancel := context.WithCancel(context.Background())
	defer cancel()
	work.Go(func() { d.warnFull(inner) })
	work.Go(func() { d.api.Sample(inner) })
	work.Go(func() { d.engine.MakeMissing(inner, time.Second) })
	if d.backup != nil {
		work.Go(func() { d.backup.Reconcile(inner) })
		if d.cfg.Writeback.Interval > 0 {
			work.Go(func() { d.backup.Every(inner, d.cfg.Writeback.Interval) })
		}
	}
	work.Go(func() { d.engine.Follow(inner) })

	defer func() { err = errors.Join(err, d.serving.Close()) }()
	d.serving.Serve()
	if d.resp != nil {
		d.resp.serve()
	}
	lifecycle.Notify(lifecycle.Ready)
	work.Go(func() { lifecycle.PingWatchdog(inner, d.engine.TakeLocks, d.log) })
	telling, tellNoMore := context.WithCancel(inner)
	defer tellNoMore()
	work.Go(func() { lifecycle.TellStatus(telling, d.statusLine) })

	var respBroken <-chan error
	if d.resp != nil {
		respBroken = d.resp.broken
	}
	for {
		select {
		case <-reload:
			d.reload()
		case err := <-d.serving.Broken():
			d.shutdown(0, failedGrace)
			return err
		case err := <-respBroken:
			d.shutdown(0, failedGrace)
			return err
		case <-d.store.Failed():
			d.shutdown(0, failedGrace)
			return fmt.Errorf("stopped because the store failed: %w", d.store.Ready(context.Background()))
		case <-ctx.Done():
			start := time.Now()
			d.log.Info("stopping", "reason", context.Cause(ctx).Error())
			tellNoMore()
			lifecycle.Notify(lifecycle.Stopping, lifecycle.Status("Stopping: answering the requests under way"), lifecycle.MoreTime(d.cfg.ShutdownTimeout+stopRest))
			d.shutdown(stopLinger, d.cfg.ShutdownTimeout)
			lifecycle.Notify(lifecycle.Status("Stopped after %s", time.Since(start).Round(time.Millisecond)))
			d.log.Info("stopped", "took", time.Since(start).Round(time.Millisecond))
			return nil
		}
	}
}

// shutdown fails readiness, tells the clients to leave, and waits for the running
// requests; then it stops accepting.
func (d *Server) shutdown(linger, patience time.Duration) {
	d.stopping.Arm()
	d.api.Drain()
	d.engine.Stop() // calls that wait for a restore are answered
	if d.backup != nil {
		d.backup.Stop() // a copy may take minutes, and can be repeated
	}
	var ports sync.WaitGroup
	if d.resp != nil {
		ports.Go(func() { d.resp.drain(patience) })
	}
	d.serving.Drain(linger, patience)
	ports.Wait()
}

func (d *Server) warnFull(ctx context.Context) {
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

// close releases what New opened, in reverse order.
func (d *Server) close() error {
	var errs []error
	if d.link != nil {
		ctx, cancel := context.WithTimeout(context.Background(), archiveClose)
		errs = append(errs, d.link.Close(ctx))
		cancel()
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.serving != nil {
		errs = append(errs, d.serving.Close())
	}
	if d.resp != nil {
		errs = append(errs, d.resp.close())
	}
	return errors.Join(errs...)
}
