package tlsdial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

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
	var noTLS tls.RecordHeaderError
	var op *net.OpError
	var shake *HandshakeError
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
	case errors.As(err, &noTLS), errors.As(err, &shake) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return fmt.Sprintf("the server does not speak TLS at that port: see its port, or set %s.tls: false", section)
	case errors.As(err, &shake) && isTimeout(err):
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
