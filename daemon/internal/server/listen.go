package server

import (
	"log/slog"
	"net"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/listen"
)

func openSockets(cfg configs.Config, log *slog.Logger) ([]net.Listener, error) {
	return listen.Open(listen.Options{
		Program: "urifilter", Address: cfg.Listen, Guarded: cfg.Auth.TokensFile != "", Guard: "auth.tokens_file", Log: log,
	})
}

// warnPlainText tells of tokens that others on the way can read.
func warnPlainText(listeners []net.Listener, cfg configs.Config, log *slog.Logger) {
	if cfg.Auth.TokensFile == "" || cfg.TLS.CertFile != "" {
		return
	}
	for _, l := range listeners {
		if listen.Reached(l) {
			log.Warn("tokens and items travel in plain text on this address: set tls.cert_file and tls.key_file, or let only what has TLS in front reach it", "address", l.Addr().String())
		}
	}
}
