package server

import (
	"errors"
	"log/slog"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// secrets holds the tokens and the certificate in use. They can be reloaded while the
// daemon serves.
type secrets struct {
	cfg    configs.Config
	log    *slog.Logger
	tokens *configs.TokenFile  // nil: calls need no token
	cert   *secret.Certificate // nil: no TLS
}

func openSecrets(cfg configs.Config, log *slog.Logger) (_ *secrets, err error) {
	s := &secrets{cfg: cfg, log: log}
	var warnings []string
	s.tokens, warnings, err = configs.OpenTokens(cfg.Auth.TokensFile, configs.Scopes())
	s.warn(warnings)
	if cfg.TLS.CertFile != "" {
		var wrong error
		s.cert, wrong = secret.OpenCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile)
		err = errors.Join(err, wrong)
	}
	return s, err
}

func (s *secrets) warn(warnings []string) {
	for _, w := range warnings {
		s.log.Warn(w)
	}
}

func (s *secrets) loadTokens() error {
	warnings, err := s.tokens.Reload()
	s.warn(warnings)
	return err
}

// reload reads the files. If a file cannot be used, its previous contents stay in use.
func (s *secrets) reload() {
	for _, file := range []struct {
		what, name string
		load       func() error
	}{
		{"tokens", s.cfg.Auth.TokensFile, s.loadTokens},
		{"certificate", s.cfg.TLS.CertFile, s.cert.Reload},
	} {
		if file.name == "" {
			continue
		}
		if err := file.load(); err != nil {
			s.log.Error(file.what+" not reloaded; those read before stay in use", "err", err)
			continue
		}
		s.log.Info(file.what+" reloaded", "file", file.name)
	}
	if !s.cfg.Redis.TLS && !s.cfg.MySQL.TLS && !s.cfg.MongoDB.TLS {
		return
	}
	// Certificates for servers that the daemon calls are read for each new connection if
	// they have changed; a reload reports their faults.
	if err := CheckCalls(s.cfg, s.log); err != nil {
		s.log.Error("certificates for redis or mongodb not reloaded; those read before stay in use", "err", err)
		return
	}
	s.log.Info("certificates for redis and mongodb are good; new connections use them")
}
