package server

import (
	"errors"
	"log/slog"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// CheckCalls reads the certificates for servers that the daemon calls. Unusable ones are an
// error.
func CheckCalls(cfg configs.Config, log *slog.Logger) error {
	var faults []error
	if cfg.Store == "redis" {
		_, err := tlsdial.For("redis", cfg.Redis.CallTLS, log)
		faults = append(faults, err)
	}
	if cfg.MySQL.Addr != "" {
		_, err := tlsdial.For("mysql", cfg.MySQL.CallTLS, log)
		faults = append(faults, err)
	}
	if cfg.MongoDB.URI != "" {
		_, err := tlsdial.For("mongodb", cfg.MongoDB.CallTLS, log)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// OpenLink returns the connection to the archive in the settings; nil: they name none.
func OpenLink(cfg configs.Config, log *slog.Logger) (*backup.Link, error) {
	if cfg.MongoDB.URI == "" {
		return nil, nil
	}
	dialer, err := tlsdial.For("mongodb", cfg.MongoDB.CallTLS, log)
	if err != nil {
		return nil, err
	}
	return backup.NewLink(archive.Options{URI: cfg.MongoDB.URI, TLS: dialer, Database: cfg.MongoDB.Database, Keep: cfg.Writeback.Keep, Log: log}), nil
}
