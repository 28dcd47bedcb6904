package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/socks"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// MaxErrorBytes is the length of the longest text of an Error.
const MaxErrorBytes = 10_240

const maxShownURI = 2048 // bytes of a URI in the text of an Error

// Error says why nothing was fetched.
type Error struct {
	Reason    Reason
	Permanent bool          // a retry would end the same
	URI       string        // the URI of the failed request: the last of the redirects
	After     time.Duration // a retry before that is useless; 0: not known
	Err       error         // nil if there is no more to say
}

// Error is a sentence of at most MaxErrorBytes, in valid UTF-8 without control characters.
func (e *Error) Error() string {
	uri := e.URI
	if len(uri) > maxShownURI {
		uri = uri[:maxShownURI] + "..."
	}
	text := uri + ": " + meanings[e.Reason].Text
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if text = uris.Redact(text); len(text) > MaxErrorBytes {
		text = strings.ToValidUTF8(text[:MaxErrorBytes-3], "") + "..."
	}
	return text
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

func failure(reason Reason, uri string, err error) *Error {
	return &Error{Reason: reason, Permanent: meanings[reason].Permanent, URI: uri, Err: err}
}

// PermanentStatus reports whether a status of 400 or more is permanent, so that a retry is useless.
func PermanentStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return status < 500
}

// stop is the cause with which a request is ended from inside.
type stop struct {
	reason Reason
	text   string
}

func (s *stop) Error() string { return s.text }

// proxyError is an error of the proxy: it cannot be used at all, or not for this target.
type proxyError struct {
	target bool
	err    error
}

func (p *proxyError) Error() string { return p.err.Error() }
func (p *proxyError) Unwrap() error { return p.err }

// stage is how far a request has got.
type stage int

const (
	connecting stage = iota
	asking           // the connection is established
	reading          // the header has arrived
)

// classify returns the reason of an error at a stage of a request; ctx is the request's.
func classify(ctx context.Context, at stage, err error) (Reason, error) {
	cause := context.Cause(ctx)
	if s := (*stop)(nil); errors.As(cause, &s) {
		return s.reason, s
	}
	for _, known := range []func(error) Reason{knownReason, ofNames, func(err error) Reason { return timeoutReason(at, err) }, ofTLS} {
		if reason := known(err); reason != "" {
			return reason, err
		}
	}
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return Timeout, cause
	case cause != nil:
		return Canceled, cause
	}
	return ofConnection(at, err), err
}

// knownReason is for the errors that we have types for.
func knownReason(err error) Reason {
	var s *stop
	var refused *guard.Refused
	var proxy *proxyError
	var refusal *socks.Refusal
	var coding *body.CodingError
	var storage *body.StorageError
	switch {
	case errors.As(err, &s):
		return s.reason
	case errors.As(err, &refused) && errors.As(err, &proxy):
		return RefusedProxy
	case errors.As(err, &refused) && refused.Port:
		return RefusedPort
	case errors.As(err, &refused):
		return RefusedAddress
	case errors.As(err, &refusal), errors.As(err, &proxy) && proxy.target:
		return ProxyTarget
	case errors.As(err, &proxy):
		return Proxy
	case errors.Is(err, body.ErrTooLarge):
		return TooLarge
	case errors.As(err, &storage):
		return Storage
	case errors.As(err, &coding):
		return BadEncoding
	}
	return ""
}

// timeoutReason is for the timeouts of connecting, which end shortly before or after the walk's own.
func timeoutReason(at stage, err error) Reason {
	var timeout net.Error
	if at == connecting && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()) {
		return TimeoutConnect
	}
	return ""
}

func ofNames(err error) Reason {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return ""
	case dns.IsNotFound:
		return DNSNotFound
	case dns.IsTimeout: // the resolver has given up shortly before or after the walk
		return TimeoutConnect
	}
	return DNS
}

func ofTLS(err error) Reason {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var handshake *handshakeError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return TLSExpired
	case errors.As(err, &host):
		return TLSHostname
	case errors.As(err, &authority):
		return TLSUnknownAuthority
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &invalid):
		return TLS
	case errors.As(err, &handshake) && !broken(err):
		return TLS
	}
	return ""
}

// handshakeError is an error of a TLS handshake.
type handshakeError struct{ err error }

func (h *handshakeError) Error() string { return h.err.Error() }
func (h *handshakeError) Unwrap() error { return h.err }

func ofConnection(at stage, err error) Reason {
	switch {
	case at == reading && errors.Is(err, io.ErrUnexpectedEOF):
		return Incomplete
	case broken(err):
		if h := (*handshakeError)(nil); at == connecting && !errors.As(err, &h) {
			return Connect
		}
		return ConnectionLost
	case at == connecting:
		return Connect
	}
	return BadResponse
}

// broken reports whether err is an error of a connection, and not of what was sent over it.
func broken(err error) bool {
	var op *net.OpError
	var number syscall.Errno
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &number) ||
		errors.As(err, &op) && op.Op != "remote error" && op.Op != "local error"
}

// statusError is what a host means by its status.
func statusError(status int) error {
	if text := http.StatusText(status); text != "" {
		return fmt.Errorf("%d %s", status, text)
	}
	return fmt.Errorf("%d", status)
}
