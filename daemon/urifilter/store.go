package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

var errNoRedis = errors.New("store: redis is not available in this version; use embedded")

// openStore opens the store that the settings name.
func openStore(cfg configs.Config, log *slog.Logger) (engine.Store, error) {
	if cfg.Store == "redis" {
		return nil, errNoRedis
	}
	store, err := embedded.Open(embedded.Options{Dir: cfg.DataDir, Durability: cfg.Durability, Log: log})
	if err != nil {
		return nil, explainOpen(err, cfg)
	}
	return store, nil
}

// explainOpen adds what to do to an error about the data directory.
func explainOpen(err error, cfg configs.Config) error {
	var inUse *durable.InUseError
	switch {
	case errors.As(err, &inUse):
		return fmt.Errorf("%w\nhint: one daemon uses a data directory at a time; stop that process, or give this one a --data-dir of its own", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w\nhint: run as the user that owns %s, or name another folder with --data-dir", err, cfg.DataDir)
	}
	return err
}
