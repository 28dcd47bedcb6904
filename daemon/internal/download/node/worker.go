package node

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// openFetcher makes what fetches for all workers of the process. What bodies leave on disk for a
// moment is removed at a start.
func openFetcher(cfg settings.Config, log *slog.Logger) (*fetch.Fetcher, error) {
	spill := filepath.Join(cfg.DataDir, "spill")
	if err := os.RemoveAll(spill); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(spill, 0o700); err != nil {
		return nil, err
	}
	return fetch.New(fetch.Options{
		Guard: guard.New(guard.Options{AllowPrivate: cfg.AllowPrivate}), UserAgent: cfg.UserAgent, SpillDir: spill, Log: log,
	}), nil
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
