// Package secret reads secrets that a program keeps in files: passwords, and the certificate
// that it serves with. It logs nothing, and no error contains a secret.
package secret

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Read reads a file that holds only a secret; a line end after it is ignored. Path "" means no
// secret.
func Read(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// largestToken bounds the length of a token: no program reads a longer header.
const largestToken = 4096

// ReadToken is Read for an access token, which is sent in a header.
func ReadToken(path string) (string, error) {
	text, err := Read(path)
	if path == "" || err != nil {
		return "", err
	}
	token := strings.TrimSpace(text)
	if token == "" || len(token) > largestToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: want one token and nothing else", path)
	}
	return token, nil
}

// Certificate is a certificate chain with its key, which can be reloaded while the program
// serves. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	inUse             atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads the files.
func OpenCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	return c, c.Reload()
}

// Reload reads the files. If they cannot be used, the old certificate stays in use.
func (c *Certificate) Reload() error {
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("tls: cert_file %s and key_file %s: %w", c.certFile, c.keyFile, err)
	}
	c.inUse.Store(&cert)
	return nil
}

// Config returns the TLS settings of an HTTP server, with the certificate that is in use.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.inUse.Load(), nil },
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
