package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/tlsdial"
)

// callTimeout bounds a connection to Redis or MongoDB, with the handshake of TLS.
const callTimeout = 5 * time.Second

// openCall is how a server is called by TLS; nil: without, or as its URI says.
func openCall(section string, c configs.CallTLS, log *slog.Logger) (*tlsdial.Dialer, error) {
	if !c.TLS {
		return nil, nil
	}
	return tlsdial.Open(section, tlsdial.Files{CA: c.TLSCAFile, Cert: c.TLSCertFile, Key: c.TLSKeyFile, ServerName: c.TLSServerName}, callTimeout, log)
}

// checkCalls reads the certificates for servers that the daemon calls. Those that cannot
// be used are an error.
func checkCalls(cfg configs.Config, log *slog.Logger) error {
	var faults []error
	if cfg.Store == "redis" {
		_, err := openCall("redis", cfg.Redis.CallTLS, log)
		faults = append(faults, err)
	}
	if cfg.MongoDB.URI != "" {
		_, err := openCall("mongodb", cfg.MongoDB.CallTLS, log)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
