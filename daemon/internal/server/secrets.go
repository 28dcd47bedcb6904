package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// secrets are the tokens and the certificate in use. They can be read anew while the
// daemon serves.
type secrets struct {
	cfg    configs.Config
	log    *slog.Logger
	tokens atomic.Pointer[configs.Tokens] // nil: calls need no token
	cert   *secret.Certificate            // nil: no TLS
}

func openSecrets(cfg configs.Config, log *slog.Logger) (_ *secrets, err error) {
	s := &secrets{cfg: cfg, log: log}
	if cfg.Auth.TokensFile != "" {
		err = s.loadTokens()
	}
	if cfg.TLS.CertFile != "" {
		var wrong error
		s.cert, wrong = secret.OpenCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile)
		err = errors.Join(err, wrong)
	}
	return s, err
}

func (s *secrets) loadTokens() error {
	tokens, warnings, err := configs.LoadTokens(s.cfg.Auth.TokensFile)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tokens.Store(&tokens)
	return nil
}

// reload reads the files anew. What cannot be used leaves in use what was.
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
	// Those for servers that are called are read for each new connection if they have
	// changed; a reload says what is wrong with them.
	if err := CheckCalls(s.cfg, s.log); err != nil {
		s.log.Error("certificates for redis or mongodb not reloaded; those read before stay in use", "err", err)
		return
	}
	s.log.Info("certificates for redis and mongodb are good; new connections use them")
}

// authenticate is for api.Options; nil when calls need no token.
func (s *secrets) authenticate() func(secret string) (name string, scopes []string, ok bool) {
	if s.cfg.Auth.TokensFile == "" {
		return nil
	}
	return func(secret string) (string, []string, bool) {
		t, ok := s.tokens.Load().Match(secret)
		return t.Name, t.Scopes, ok
	}
}

// tlsConfig is how connections are encrypted; nil: they are not.
func (s *secrets) tlsConfig() *tls.Config {
	if s.cert == nil {
		return nil
	}
	return s.cert.Config()
}
