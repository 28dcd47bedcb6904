package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/address"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browserengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/scriptengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
)

// newGuard makes the guard of what jobs call: hosts and proxies.
func newGuard(cfg settings.Config) (*guard.Guard, error) {
	allowed, err := address.ParseServices("proxies.allowed", cfg.Proxies.Allowed)
	if err != nil {
		return nil, err
	}
	return guard.New(guard.Options{AllowPrivate: cfg.AllowPrivate, Proxies: allowed.Have}), nil
}

// refusesProxy says why no worker with these settings would use a proxy of a job.
func (n *Node) refusesProxy(uri string) error {
	u, err := proxies.Parse(uri)
	if err != nil {
		return err
	}
	return n.guard.ProxyURL(u)
}

// newFetcher makes the fetcher for all tasks of the process.
func newFetcher(cfg settings.Config, g *guard.Guard, s *spill, log *slog.Logger) *fetch.Fetcher {
	return fetch.New(fetch.Options{
		Guard: g, UserAgent: cfg.UserAgent, SpillDir: s.dir, Log: log,
	})
}

// scriptOptions are the options of the engine that runs the code of jobs, without those that only a worker has.
func scriptOptions(cfg settings.Config, log *slog.Logger) scriptengine.Options {
	s := cfg.Script
	return scriptengine.Options{Python: s.Python, Processes: s.Processes, Memory: int64(s.Memory), CPU: s.CPU, Log: log}
}

// newScriptEngine makes the engine that runs the code of jobs. It refuses to if the machine has no jail for it.
func newScriptEngine(ctx context.Context, cfg settings.Config, overHTTP *httpengine.Engine, store download.Store, added *intake.Intake, wake func(), log *slog.Logger) *scriptengine.Engine {
	o := scriptOptions(cfg, log)
	o.HTTP, o.Stored = overHTTP, store
	o.Follow = func(ctx context.Context, j download.Job, filters []string, tasks []download.NewTask) error {
		_, err := added.AddThrough(ctx, j, filters, tasks)
		wake()
		if err != nil {
			return notAdded("follow", err)
		}
		return nil
	}
	e := scriptengine.New(o)
	if err := e.Probe(ctx); err != nil && ctx.Err() == nil {
		log.Warn("jobs with code are refused", "err", err)
	} else if cfg.Script.Python != "" {
		if err := e.Python(); err != nil {
			log.Warn("jobs with code in Python are refused", "err", err)
		}
	}
	return e
}

// filterAway is the pause before a task is downloaded again if the filter or the store could not be had to make tasks of
// what it leads to.
const filterAway = 5 * time.Minute

// notAdded is the failure of an attempt whose run of parse, or whose links, could not be made tasks. That the filter or
// the store cannot be had at present says nothing about the attempt, which does not count then.
func notAdded(word string, err error) *worker.Failure {
	f := worker.Failed(word, "%v", err)
	var answer *client.Error
	refused := errors.As(err, &answer) && (answer.Status < 500 || answer.Status == http.StatusInsufficientStorage) // it is full, and stays so
	refused = refused || errors.As(err, new(*seen.UnknownError))
	if errors.As(err, new(*intake.FilterError)) && !refused || errors.Is(err, download.ErrUnavailable) {
		f.Early, f.After = true, filterAway
	}
	return f
}

// newBrowserEngine makes the engine that downloads with browsers. It refuses to if the machine has
// no browser, or no jail for it; if the settings require one, that is an error.
func newBrowserEngine(cfg settings.Config, overHTTP *httpengine.Engine, s *spill, log *slog.Logger) (*browserengine.Engine, error) {
	e := browserengine.New(browserengine.Options{
		HTTP: overHTTP, Dir: s.dir, Path: cfg.Browser.Path, Pages: cfg.Browser.Pages, Memory: int64(cfg.Browser.Memory), Agent: cfg.UserAgent, Log: log,
	})
	switch err := e.Probe(); {
	case err != nil && cfg.Browser.Required:
		return nil, errors.Join(fmt.Errorf("browser.required: true: %w", err), e.Close())
	case errors.Is(err, chromium.ErrNotFound):
		log.Info("jobs with a browser are refused", "err", err)
	case err != nil:
		log.Warn("jobs with a browser are refused", "err", err)
	}
	return e, nil
}

func newWorker(cfg settings.Config, store download.Store, engines map[string]worker.Engine, has []string, owner, host string, log *slog.Logger, registry prometheus.Registerer, idle func()) *worker.Worker {
	lanes := make([]download.Lane, len(cfg.Worker.Lanes))
	for i, lane := range cfg.Worker.Lanes {
		lanes[i] = download.Lane(lane)
	}
	return worker.New(worker.Options{
		Store: store, Engines: engines, Has: has,
		Owner: owner, HostName: host, Concurrency: cfg.Worker.Concurrency, LeaseFor: cfg.Worker.Lease, Lanes: lanes,
		ApartAddresses: !cfg.Worker.ShareAddresses,
		Patience:       cfg.ShutdownTimeout, Idle: idle, Log: log, Registry: registry,
	})
}
