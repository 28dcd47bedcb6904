package server

import (
	"errors"
	"log/slog"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// callTimeout bounds a connection to Redis, MariaDB or MongoDB, with the handshake of TLS.
const callTimeout = 5 * time.Second

// OpenCall returns the dialer for calling a server by TLS; nil: without TLS, or as its URI says.
func OpenCall(section string, c configs.CallTLS, log *slog.Logger) (*tlsdial.Dialer, error) {
	if !c.TLS {
		return nil, nil
	}
	return tlsdial.Open(section, tlsdial.Files{CA: c.TLSCAFile, Cert: c.TLSCertFile, Key: c.TLSKeyFile, ServerName: c.TLSServerName}, callTimeout, log)
}

// CheckCalls reads the certificates for servers that the daemon calls. Unusable ones are an
// error.
func CheckCalls(cfg configs.Config, log *slog.Logger) error {
	var faults []error
	if cfg.Store == "redis" {
		_, err := OpenCall("redis", cfg.Redis.CallTLS, log)
		faults = append(faults, err)
	}
	if cfg.MySQL.Addr != "" {
		_, err := OpenCall("mysql", cfg.MySQL.CallTLS, log)
		faults = append(faults, err)
	}
	if cfg.MongoDB.URI != "" {
		_, err := OpenCall("mongodb", cfg.MongoDB.CallTLS, log)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// OpenLink returns the connection to the archive in the settings; nil: they name none.
func OpenLink(cfg configs.Config, log *slog.Logger) (*backup.Link, error) {
	if cfg.MongoDB.URI == "" {
		return nil, nil
	}
	dialer, err := OpenCall("mongodb", cfg.MongoDB.CallTLS, log)
	if err != nil {
		return nil, err
	}
	return backup.NewLink(archive.Options{URI: cfg.MongoDB.URI, TLS: dialer, Database: cfg.MongoDB.Database, Keep: cfg.Writeback.Keep, Log: log}), nil
}
