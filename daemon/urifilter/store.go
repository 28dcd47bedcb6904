package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore"
)

// openStore opens the store that the settings name.
func openStore(cfg configs.Config, log *slog.Logger) (engine.Store, error) {
	if cfg.Store == "redis" {
		return openRedis(cfg.Redis, log)
	}
	store, err := embedded.Open(embedded.Options{Dir: cfg.DataDir, Durability: cfg.Durability, Log: log})
	if err != nil {
		return nil, explainOpen(err, cfg)
	}
	return store, nil
}

func openRedis(c configs.Redis, log *slog.Logger) (engine.Store, error) {
	password, err := redisstore.ReadPassword(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("redis.password_file: %w", err)
	}
	// Open has timeouts of its own for each server that it asks.
	store, err := redisstore.Open(context.Background(), redisstore.Config{
		Options: redisstore.Options{
			Addrs: c.Addrs, Username: c.Username, Password: password, DB: c.DB, TLS: c.TLS, MasterName: c.MasterName,
		},
		Log:        log,
		DoubtIsNew: c.InDoubt == "new",
	})
	if err != nil {
		return nil, err // not a typed nil
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
