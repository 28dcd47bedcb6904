package node

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// newFetcher makes what fetches for all tasks of the process.
func newFetcher(cfg settings.Config, s *spill, log *slog.Logger) *fetch.Fetcher {
	return fetch.New(fetch.Options{
		Guard: guard.New(guard.Options{AllowPrivate: cfg.AllowPrivate}), UserAgent: cfg.UserAgent, SpillDir: s.dir, Log: log,
	})
}

func newWorker(cfg settings.Config, store download.Store, fetcher *fetch.Fetcher, owner, host string, log *slog.Logger, registry prometheus.Registerer, idle func()) *worker.Worker {
	lanes := make([]download.Lane, len(cfg.Worker.Lanes))
	for i, lane := range cfg.Worker.Lanes {
		lanes[i] = download.Lane(lane)
	}
	return worker.New(worker.Options{
		Store: store, Engines: map[string]worker.Engine{download.EngineHTTP: httpengine.New(fetcher, cfg.UserAgent)},
		Owner: owner, HostName: host, Concurrency: cfg.Worker.Concurrency, LeaseFor: cfg.Worker.Lease, Lanes: lanes,
		Patience: cfg.ShutdownTimeout, Idle: idle, Log: log, Registry: registry,
	})
}
