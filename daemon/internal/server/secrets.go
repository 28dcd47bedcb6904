package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/configs"
)

// secrets are the tokens and the certificate in use. They can be read anew while the
// daemon serves.
type secrets struct {
	tokensFile        string // "": calls need no token
	certFile, keyFile string // "": no TLS
	cfg               configs.Config
	log               *slog.Logger

	tokens atomic.Pointer[configs.Tokens]
	cert   atomic.Pointer[tls.Certificate]
}

func openSecrets(cfg configs.Config, log *slog.Logger) (*secrets, error) {
	s := &secrets{tokensFile: cfg.Auth.TokensFile, certFile: cfg.TLS.CertFile, keyFile: cfg.TLS.KeyFile, cfg: cfg, log: log}
	return s, errors.Join(s.loadTokens(), s.loadCertificate())
}

func (s *secrets) loadTokens() error {
	if s.tokensFile == "" {
		return nil
	}
	tokens, warnings, err := configs.LoadTokens(s.tokensFile)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tokens.Store(&tokens)
	return nil
}

func (s *secrets) loadCertificate() error {
	if s.certFile == "" {
		return nil
	}
	cert, err := LoadCertificate(s.certFile, s.keyFile)
	if err != nil {
		return err
	}
	s.cert.Store(&cert)
	return nil
}

// LoadCertificate reads a certificate chain and its key.
func LoadCertificate(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return cert, fmt.Errorf("tls: %w", err)
	}
	return cert, nil
}

// reload reads the files anew. What cannot be used leaves in use what was.
func (s *secrets) reload() {
	for _, file := range []struct {
		what, name string
		load       func() error
	}{
		{"tokens", s.tokensFile, s.loadTokens},
		{"certificate", s.certFile, s.loadCertificate},
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
	if !s.cfg.Redis.TLS && !s.cfg.MongoDB.TLS {
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
	if s.tokensFile == "" {
		return nil
	}
	return func(secret string) (string, []string, bool) {
		t, ok := s.tokens.Load().Match(secret)
		return t.Name, t.Scopes, ok
	}
}

// tlsConfig is how connections are encrypted; nil: they are not.
func (s *secrets) tlsConfig() *tls.Config {
	if s.certFile == "" {
		return nil
	}
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cert.Load(), nil },
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
