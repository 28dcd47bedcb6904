// Package node is a running uridownloader: it opens the store and the filter as the settings say, and
// serves the roles of this process. Roles in different processes communicate through the store alone.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browserengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/errorreport"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/master"
	"github.com/cr-clawer/urifilter/daemon/internal/download/report"
	"github.com/cr-clawer/urifilter/daemon/internal/download/scriptengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/wake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/diskspace"
	"github.com/cr-clawer/urifilter/daemon/internal/program/httpserver"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/probe"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

const (
	// stopLinger is how long a stop keeps a silent connection open.
	stopLinger = 2 * time.Second
	// failedGrace lets the answers of calls under way reach their callers when the disk or the listener has failed.
	failedGrace = time.Second
	// stopRest is how long a stop may take in addition to requests and downloads.
	stopRest   = 30 * time.Second
	stopMargin = 10 * time.Second
	// readyIn is how long the store may take to answer a readiness check.
	readyIn = 2 * time.Second
)

// Node is one process with its roles. Fields that no role needs are nil.
type Node struct {
	cfg      settings.Config
	roles    Roles
	log      *slog.Logger
	tokens   *configs.TokenFile
	cert     *secret.Certificate
	serving  *httpserver.Server
	store    download.Store
	filter   seen.Filter
	intake   *intake.Intake
	code     *scriptengine.Engine // of the worker, as are the fields below
	browsers *browserengine.Engine
	spill    *spill
	fetcher  *fetch.Fetcher
	guard    *guard.Guard // of what jobs call
	dispatch *dispatch.Dispatcher
	reporter *report.Reporter
	worker   *worker.Worker
	notifier *wake.Notifier        // nil without a Redis
	faults   *errorreport.Reporter // nil without report.dsn
	stopping *lifecycle.StopGuard
	broken   chan error // why the disk has failed: of store and filter one error each, at most
}

// Open opens what the roles need. It takes the port first, so that an error there is reported at once.
func Open(ctx context.Context, cfg settings.Config, roles Roles, log *slog.Logger) (_ *Node, err error) {
	if err := roles.check(cfg); err != nil {
		return nil, err
	}
	faults, log, err := openFaults(cfg.Report.DSN, roles, log)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, roles: roles, log: log, faults: faults, stopping: lifecycle.NewStopGuard(cfg.ShutdownTimeout+stopRest-stopMargin, log), broken: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.end(err))
		}
	}()
	defer lifecycle.KeepStarting()()
	lifecycle.Notify(lifecycle.Status("Starting: opening the store"))
	if err := n.openSocket(); err != nil {
		return nil, err
	}
	if n.guard, err = newGuard(cfg); err != nil {
		return nil, err
	}
	start := time.Now()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	prefixed := prometheus.WrapRegistererWithPrefix("uridownloader_", registry)
	prefixed.MustRegister(diskspace.Metrics(cfg.DataDir)...)
	if n.store, err = openStore(ctx, cfg, roles, n.diskFailed, log, prefixed); err != nil {
		return nil, err
	}
	host, owner, err := identity()
	if err != nil {
		return nil, err
	}
	if roles.Master || roles.Worker {
		if n.filter, err = openFilter(ctx, cfg, log); err != nil {
			return nil, err
		}
		n.intake = intake.New(n.store, n.filter, n.turns(owner))
	}
	if roles.Dispatch {
		if n.reporter, err = openReporter(cfg.Report, n.store, log, prefixed); err != nil {
			return nil, err
		}
		n.dispatch = dispatch.New(n.dispatching(owner, prefixed))
	}
	if roles.Worker {
		if n.spill, err = openSpill(filepath.Join(cfg.DataDir, "spill")); err != nil {
			return nil, err
		}
		n.fetcher = newFetcher(cfg, n.guard, n.spill, log)
		overHTTP := httpengine.New(n.fetcher, cfg.UserAgent)
		n.code = newScriptEngine(ctx, cfg, overHTTP, n.store, n.intake, n.wakeDispatcher, log)
		if n.browsers, err = newBrowserEngine(cfg, overHTTP, n.spill, log); err != nil {
			return nil, err
		}
		engines := map[string]worker.Engine{}
		for name, engine := range map[string]worker.Engine{download.EngineHTTP: overHTTP, download.EngineScript: n.code, download.EngineBrowser: n.browsers} {
			engines[name] = parsing{engine, n.intake, n.wakeDispatcher}
		}
		n.worker = newWorker(cfg, n.store, engines, n.has(), owner, host, log, prefixed, n.wakeDispatcher)
	}
	if err := n.openNotifier(prefixed); err != nil {
		return nil, err
	}
	n.serving.Handle(httpserver.Handling{
		Handler: n.handler(registry), HeaderTimeout: cfg.Limits.HeaderTimeout, Connections: cfg.Limits.Connections,
		Overloaded: master.Overloaded(), Registry: prefixed,
	})
	log.Info("ready", "roles", roles.String(), "address", n.serving.URL(), "store", cfg.Store, "data_dir", cfg.DataDir, "tokens", n.tokens != nil,
		"allow_private", cfg.AllowPrivate, "took", time.Since(start).Round(time.Millisecond))
	return n, nil
}

// openSocket reads the tokens and the certificate, and listens on the port of the roles.
func (n *Node) openSocket() (err error) {
	if n.roles.Master {
		var warnings []string
		if n.tokens, warnings, err = configs.OpenTokens(n.cfg.Auth.TokensFile, settings.Scopes()); err != nil {
			return err
		}
		for _, w := range warnings {
			n.log.Warn(w)
		}
	}
	if n.cfg.TLS.CertFile != "" {
		if n.cert, err = secret.OpenCertificate(n.cfg.TLS.CertFile, n.cfg.TLS.KeyFile); err != nil {
			return err
		}
	}
	o := httpserver.Options{
		Options:     listen.Options{Program: "uridownloader", Address: n.roles.address(n.cfg), Guarded: n.tokens != nil, Guard: "auth.tokens_file"},
		Certificate: n.cert, Log: n.log,
	}
	if !n.roles.Master { // no secret is sent there
		o.Guarded, o.Public = true, true
	}
	n.serving, err = httpserver.Open(o)
	return err
}

// handler answers calls: those of the master, or the few that every role has.
func (n *Node) handler(registry *prometheus.Registry) http.Handler {
	if !n.roles.Master {
		return probe.New(probe.Options{Program: "uridownloader " + n.roles.String(), Ready: n.ready, Metrics: registry})
	}
	checks := n.code
	if checks == nil { // this only compiles, and runs nothing
		checks = scriptengine.New(scriptOptions(n.cfg, n.log))
	}
	return master.New(master.Options{
		Store: n.store, Filter: n.filter, Intake: n.intake, Added: n.wakeDispatcher, Ready: n.ready, Unable: n.unable, Check: checks.Check, Proxy: n.refusesProxy,
		Mails: n.cfg.Report.MailServer != "", JobBytes: int64(n.cfg.Limits.JobBytes), BodyTimeout: n.cfg.Limits.BodyTimeout,
		Authenticate: n.tokens.Authenticate(), AllowedHosts: n.cfg.Auth.AllowedHosts, Connections: httpserver.Connections(n.cfg.Limits.Connections, ""),
		Version: command.ReadVersion().Version, Log: n.log, Registry: registry,
	})
}

// unable says why the worker of this process cannot use an engine. What other workers can do is not known.
func (n *Node) unable(engine string) error {
	switch {
	case n.code != nil && engine == download.EngineScript:
		return n.code.Unable()
	case n.browsers != nil && engine == download.EngineBrowser:
		return n.browsers.Unable()
	}
	return nil
}

// has returns which needs of jobs the worker of this process meets.
func (n *Node) has() []string {
	has := []string{download.EngineHTTP}
	if n.browsers.Unable() == nil {
		has = append(has, download.EngineBrowser)
	}
	if n.code.Unable() == nil {
		has = append(has, download.EngineScript)
		if n.code.Python() == nil {
			has = append(has, download.NeedPython)
		}
	}
	return has
}

// identity returns the name of this machine, and a name for this process that no other has.
func identity() (host, owner string, err error) {
	host, err = os.Hostname()
	return host, fmt.Sprintf("%s:%d:%s", host, os.Getpid(), rand.Text()[:8]), err
}

func openFilter(ctx context.Context, cfg settings.Config, log *slog.Logger) (seen.Filter, error) {
	if cfg.Filter.URL == "" {
		own, err := seen.Open(ctx, filepath.Join(cfg.DataDir, "filter"), log)
		if err != nil {
			return nil, err
		}
		return own, nil
	}
	token, err := secret.ReadToken(cfg.Filter.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("filter.token_file: %w", err)
	}
	daemon, err := client.New(cfg.Filter.URL, client.WithToken(token), client.WithLogger(log))
	if err != nil {
		return nil, fmt.Errorf("filter.url: %w", err)
	}
	return seen.Call(daemon), nil
}

// Addr is the address on which the process listens.
func (n *Node) Addr() net.Addr { return n.serving.Addr() }

func (n *Node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	return n.store.Ready(ctx)
}

// parsing is an engine for jobs whose script parse is to run on each page.
type parsing struct {
	worker.Engine
	intake *intake.Intake
	added  func() // is called when there is a task to hand out
}

// Download makes a task of the run just before its page is stored. After a crash in between, the
// run finds no page yet and waits, and the repeated attempt finds that the run exists.
func (p parsing) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	page, err := p.Engine.Download(ctx, w)
	parse := w.Job.Setting.Parse
	if err != nil || parse.Code.Text == "" || w.Task.Script() != download.ScriptDownload {
		return page, err
	}
	if _, err := p.intake.AddThrough(ctx, w.Job, []string{parse.Filter}, []download.NewTask{download.ParseRun(w.Task)}); err != nil {
		if page.Body != nil {
			err = errors.Join(err, page.Body.Close())
		}
		return worker.Page{}, notAdded("parse", err)
	}
	p.added()
	return page, nil
}

// openFaults opens the reporter that sends logged errors to an error service, and the log in front of it.
func openFaults(dsn string, roles Roles, log *slog.Logger) (*errorreport.Reporter, *slog.Logger, error) {
	if dsn == "" {
		return nil, log, nil
	}
	faults, err := errorreport.New(errorreport.Options{DSN: dsn, Release: "uridownloader@" + command.ReadVersion().Version, Role: roles.String()})
	if err != nil {
		return nil, nil, fmt.Errorf("report.dsn: %w", err)
	}
	log.Info("errors are sent", "to", errorreport.Place(dsn))
	return faults, slog.New(faults.Handler(log.Handler())), nil
}

// openReporter opens the reporter for jobs whose tasks have ended, with the secrets that it needs.
func openReporter(cfg settings.Report, store download.Store, log *slog.Logger, registry prometheus.Registerer) (*report.Reporter, error) {
	o := report.Options{Store: store, Log: log, Registry: registry}
	if cfg.Webhook != "" {
		token, err := secret.ReadToken(cfg.WebhookTokenFile)
		if err != nil {
			return nil, fmt.Errorf("report.webhook_token_file: %w", err)
		}
		o.Webhook = &report.Webhook{URL: cfg.Webhook, Token: token}
	}
	if cfg.MailServer != "" {
		password, err := secret.Read(cfg.MailPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("report.mail_password_file: %w", err)
		}
		o.Mail = &report.Mail{Server: cfg.MailServer, From: cfg.MailFrom, User: cfg.MailUser, Password: password, TLS: cfg.MailTLS}
	}
	return report.New(o), nil
}

// spill is the folder for temporary bodies of a process: DIR/0, DIR/1, ... with a lock file beside
// each, so that several workers of one machine do not touch each other's.
type spill struct {
	dir  string
	lock *disk.Lock
}

// openSpill takes the first free folder, and removes what dead processes left in the others.
func openSpill(dir string) (_ *spill, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var s *spill
	for i := 0; ; i++ {
		own := filepath.Join(dir, strconv.Itoa(i))
		if _, err := os.Lstat(own + ".lock"); s != nil && errors.Is(err, os.ErrNotExist) {
			return s, nil
		}
		lock, err := disk.AcquireLock(own + ".lock")
		if errors.As(err, new(*disk.InUseError)) {
			continue
		}
		if err == nil {
			err = os.RemoveAll(own)
		}
		switch {
		case err != nil:
		case s != nil:
			err = lock.Release()
		default:
			s = &spill{own, lock}
			err = os.Mkdir(own, 0o700)
		}
		if err != nil {
			if s != nil {
				err = errors.Join(err, s.close())
			}
			return nil, err
		}
	}
}

// close frees the folder. It is empty, since all fetches have ended.
func (s *spill) close() error { return s.lock.Release() }
