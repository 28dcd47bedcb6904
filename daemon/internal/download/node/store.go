package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/metered"
	"github.com/cr-clawer/urifilter/daemon/internal/download/mongodb"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// StoreMongoDB is the setting of a store in MongoDB.
const StoreMongoDB = "mongodb"

// openStore opens the store that the settings name, and measures its calls. failed is called if it can
// go on only in another process.
func openStore(ctx context.Context, cfg settings.Config, roles Roles, failed func(error), log *slog.Logger, registry prometheus.Registerer) (store download.Store, err error) {
	if cfg.Store == StoreMongoDB {
		store, err = OpenMongoDB(ctx, cfg, log)
	} else {
		store, err = openEmbedded(ctx, cfg, roles, failed, registry)
	}
	if err != nil {
		return nil, err
	}
	return metered.New(store, registry), nil
}

// openEmbedded opens the store on this machine, for this process alone if it has all roles.
func openEmbedded(ctx context.Context, cfg settings.Config, roles Roles, failed func(error), registry prometheus.Registerer) (download.Store, error) {
	transactions := prometheus.NewCounter(prometheus.CounterOpts{Name: "store_transactions_total",
		Help: "Transactions of the embedded store, each with one sync of the disk."})
	registry.MustRegister(transactions)
	store, err := sqlite.Open(ctx, sqlite.Options{
		Dir: filepath.Join(cfg.DataDir, "store"), EndLeases: true, Shared: !roles.all(), Committed: func(int) { transactions.Inc() }, Failed: failed,
	})
	var inUse *disk.InUseError
	switch {
	case errors.As(err, &inUse) && roles.all():
		return nil, fmt.Errorf("%w\nhint: one process that serves all roles uses a data directory at a time; stop that one, or give this one a --data-dir of its own", err)
	case errors.As(err, &inUse):
		return nil, fmt.Errorf("%w\nhint: `uridownloader serve` has this data directory, with all roles; stop it, or give this process the --data-dir of the other roles", err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%w\nhint: run as the user that owns %s, or name another folder with --data-dir", err, cfg.DataDir)
	case err != nil:
		return nil, err // not a typed nil
	}
	return store, nil
}

// OpenMongoDB opens the store that processes of several machines share.
func OpenMongoDB(ctx context.Context, cfg settings.Config, log *slog.Logger) (download.Store, error) {
	m := cfg.MongoDB
	if m.URIFile != "" {
		uri, err := secret.Read(m.URIFile)
		if err != nil {
			return nil, fmt.Errorf("mongodb.uri_file: %w", err)
		}
		m.URI = uri
	}
	o := mongodb.Options{URI: m.URI, Database: m.Database, KeepLogs: cfg.KeepLogs, Log: log}
	var err error
	if o.TLS, err = tlsdial.For("mongodb", m.CallTLS, log); err != nil {
		return nil, err
	}
	store, err := mongodb.Open(ctx, o)
	if err != nil {
		return nil, err // not a typed nil
	}
	return store, nil
}

// CheckCalls reads the certificates for servers that the program calls. Unusable ones are an error.
func CheckCalls(cfg settings.Config) error {
	var store, redis error
	if cfg.Store == StoreMongoDB {
		_, store = tlsdial.For("mongodb", cfg.MongoDB.CallTLS, nil)
	}
	if cfg.Redis.Given() {
		_, redis = tlsdial.For("redis", cfg.Redis.CallTLS, nil)
	}
	return errors.Join(store, redis)
}
