// Package tlsdial connects by TLS to the servers that the daemon calls, Redis and
// MongoDB: with authorities and a client certificate from files, which may be renewed
// while the daemon runs, and with errors that say what to do.
//
// It makes connections and keeps none. Its callers decide how to use them and when to
// retry.
package tlsdial

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/configs"
)

// Files are the files of the settings for calling a server.
type Files struct {
	// CA is a file of authorities in PEM. "": those of the system.
	CA string
	// Cert and Key are the client's certificate and key in PEM; one file may hold both.
	// "": no client certificate.
	Cert, Key string
	// ServerName is the required name in the server's certificate. "": the host called.
	ServerName string
}

// endsSoon is how long before its expiry a client certificate is warned about.
const endsSoon = 14 * 24 * time.Hour

// Dialer makes connections. It is safe for concurrent use.
type Dialer struct {
	section string // of the settings: "redis"
	files   Files
	timeout time.Duration
	log     *slog.Logger // nil: nothing is logged

	mu     sync.Mutex
	config *tls.Config // from the last read without a fault
	stamps [3]stamp    // of the files then, or when they had the fault
}

// stamp distinguishes versions of a file's content.
type stamp struct {
	changed time.Time
	size    int64
}

// callTimeout bounds a connection of a dialer that For has made, with its handshake.
const callTimeout = 5 * time.Second

// For returns the dialer for calling the server of a section of the settings; nil: without TLS, or as its URI says.
func For(section string, c configs.CallTLS, log *slog.Logger) (*Dialer, error) {
	if !c.TLS {
		return nil, nil
	}
	return Open(section, Files{CA: c.TLSCAFile, Cert: c.TLSCertFile, Key: c.TLSKeyFile, ServerName: c.TLSServerName}, callTimeout, log)
}

// Open reads the files. The section of the settings is for errors; timeout bounds a
// connection with its handshake.
func Open(section string, f Files, timeout time.Duration, log *slog.Logger) (*Dialer, error) {
	d := &Dialer{section: section, files: f, timeout: timeout, log: log}
	d.stamps = d.look()
	var err error
	d.config, err = d.read()
	return d, err
}

// DialContext connects and shakes hands. An error that is a *HandshakeError, or a
// *net.OpError of the operation dial, came before anything else was sent.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr // a socket's path
	}
	config := d.Config(host)
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}}
	plain, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // nothing of importance was sent
		return nil, &HandshakeError{Addr: addr, Err: err}
	}
	return conn, nil
}

// Config returns the TLS settings for a handshake with a host on a connection that the caller
// has made, for protocols that begin without TLS.
func (d *Dialer) Config(host string) *tls.Config {
	config := d.current()
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// current returns the configuration for a connection. Changed files are read again; if that
// fails, as in the middle of a renewal, the previous contents are used.
func (d *Dialer) current() *tls.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.look(); now != d.stamps {
		d.stamps = now
		config, err := d.read()
		switch {
		case err == nil:
			d.config = config
			d.say(slog.LevelInfo, "certificates were renewed; new connections use them", "for", d.section)
		default:
			d.say(slog.LevelWarn, "certificates have changed and cannot be used; those read before stay in use", "for", d.section, "err", err)
		}
	}
	return d.config.Clone()
}

func (d *Dialer) say(level slog.Level, text string, args ...any) {
	if d.log != nil {
		d.log.Log(context.Background(), level, text, args...)
	}
}

func (d *Dialer) look() (all [3]stamp) {
	for i, name := range []string{d.files.CA, d.files.Cert, d.files.Key} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

func (d *Dialer) read() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: d.files.ServerName}
	if name := d.files.CA; name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s.tls_ca_file: %w", d.section, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s.tls_ca_file: %s: there is no certificate in PEM in it%s", d.section, name, keyHint(text))
		}
	}
	if d.files.Cert != "" {
		cert, err := tls.LoadX509KeyPair(d.files.Cert, d.files.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.tls_cert_file, tls_key_file: %w", d.section, err)
		}
		// Sent whatever authorities the server names, so that the server reports what is wrong.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		if end := cert.Leaf.NotAfter; time.Until(end) < endsSoon {
			d.say(slog.LevelWarn, "the client certificate ends soon; renew it", "for", d.section, "file", d.files.Cert, "ends", end.UTC().Format(time.RFC3339))
		}
	}
	return config, nil
}

func keyHint(text []byte) string {
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return ", but a private key"
	}
	return ""
}

// HandshakeError is a connection that failed after the server was reached.
type HandshakeError struct {
	Addr string
	Err  error
}

func (e *HandshakeError) Error() string {
	return fmt.Sprintf("tls handshake with %s: %v", e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Hint says what to do about an error of TLS; "" for another error. Some TLS errors come
// only with the first answer, such as a server's refusal of the client's certificate. The
// section of the settings is redis or mongodb.
func Hint(section string, err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var op *net.OpError
	switch {
	case errors.As(err, &authority):
		return fmt.Sprintf("%s.tls_ca_file must hold the authority that has signed the server's certificate", section)
	case errors.As(err, &name):
		return fmt.Sprintf("call the server by a name that its certificate has, or say that name in %s.tls_server_name", section)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the certificate of the server, if the clocks of both machines are right"
	case errors.As(err, &invalid):
		return "the server needs another certificate"
	case errors.As(err, &op) && op.Op == "remote error":
		return refused(section, op.Err.Error())
	case errors.As(err, new(tls.RecordHeaderError)),
		errors.As(err, new(*HandshakeError)) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return fmt.Sprintf("the server does not speak TLS at that port: see its port, or set %s.tls: false", section)
	case errors.As(err, new(*HandshakeError)) && isTimeout(err):
		return fmt.Sprintf("the server does not answer a handshake of TLS: see its port, or set %s.tls: false", section)
	}
	return ""
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// refused handles the server's alerts about the client's certificate; the alerts of RFC
// 8446, section 6, have no separate type in crypto/tls.
func refused(section, alert string) string {
	switch alert = strings.TrimPrefix(alert, "tls: "); alert {
	case "certificate required", "handshake failure":
		return fmt.Sprintf("the server wants a client certificate: %s.tls_cert_file and tls_key_file", section)
	case "unknown certificate authority", "bad certificate", "expired certificate", "revoked certificate", "unsupported certificate", "unknown certificate":
		return fmt.Sprintf("the server does not take the client certificate of %s.tls_cert_file: it must be in its time, and of an authority that the server knows", section)
	}
	return ""
}
