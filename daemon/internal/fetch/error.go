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

// lostHTTP2 is what net/http says of a connection of HTTP/2 that did not answer (Options.Silence). It exports no such error.
const lostHTTP2 = "http2: client connection lost"

// broken reports whether err is an error of a connection, and not of what was sent over it.
func broken(err error) bool {
	var op *net.OpError
	var number syscall.Errno
	return err.Error() == lostHTTP2 || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &number) ||
		errors.As(err, &op) && op.Op != "remote error" && op.Op != "local error"
}

// statusError is what a host means by its status.
func statusError(status int) error {
	if text := http.StatusText(status); text != "" {
		return fmt.Errorf("%d %s", status, text)
	}
	return fmt.Errorf("%d", status)
}

// Reason is a stable word for why nothing was fetched.
type Reason string

// The reasons; Reasons says what they mean.
const (
	BadURI              Reason = "bad_uri"
	BadRequest          Reason = "bad_request"
	RefusedAddress      Reason = "refused_address"
	RefusedPort         Reason = "refused_port"
	RefusedProxy        Reason = "refused_proxy"
	DNS                 Reason = "dns"
	DNSNotFound         Reason = "dns_not_found"
	Connect             Reason = "connect"
	ConnectionLost      Reason = "connection_lost"
	TLS                 Reason = "tls"
	TLSExpired          Reason = "tls_expired"
	TLSHostname         Reason = "tls_hostname"
	TLSUnknownAuthority Reason = "tls_unknown_authority"
	TimeoutConnect      Reason = "timeout_connect"
	TimeoutRead         Reason = "timeout_read"
	Timeout             Reason = "timeout"
	TooSlow             Reason = "too_slow"
	TooLarge            Reason = "too_large"
	TooManyRedirects    Reason = "too_many_redirects"
	RedirectLoop        Reason = "redirect_loop"
	BadRedirect         Reason = "bad_redirect"
	BadResponse         Reason = "bad_response"
	Incomplete          Reason = "incomplete"
	BadEncoding         Reason = "bad_encoding"
	Proxy               Reason = "proxy"
	ProxyTarget         Reason = "proxy_target"
	Status              Reason = "status"
	Storage             Reason = "storage"
	Canceled            Reason = "canceled"
)

// Away reports whether the reason says that the host itself cannot be had at present: a request for another
// page of it would most likely end the same.
func (r Reason) Away() bool {
	switch r {
	case DNS, Connect, ConnectionLost, TimeoutConnect, TimeoutRead, Timeout:
		return true
	}
	return false
}

// Meaning is what a reason stands for.
type Meaning struct {
	Reason    Reason
	Permanent bool   // a retry would end the same
	Text      string // a sentence without its full stop
}

// Reasons lists all reasons.
func Reasons() []Meaning {
	return []Meaning{
		{BadURI, true, "this is no URI of http or https"},
		{BadRequest, true, "the request cannot be sent as it was asked for"},
		{RefusedAddress, true, "the host has an address that must not be called"},
		{RefusedPort, true, "the port must not be called"},
		{RefusedProxy, false, "the proxy must not be called, unless proxies.allowed in the settings lists it"}, // the next of the list may be allowed
		{DNS, false, "the name of the host could not be resolved"},
		{DNSNotFound, true, "there is no host of that name"},
		{Connect, false, "no connection to the host"},
		{ConnectionLost, false, "the connection broke before the answer had come"},
		{TLS, true, "no TLS with the host"},
		{TLSExpired, true, "the certificate of the host has expired, or is not valid yet"},
		{TLSHostname, true, "the certificate is for other hosts"},
		{TLSUnknownAuthority, true, "the certificate is from an authority that is not known"},
		{TimeoutConnect, false, "no connection in time"},
		{TimeoutRead, false, "nothing was received for too long"},
		{Timeout, false, "not done within the total time limit"},
		{TooSlow, false, "the answer comes too slowly"},
		{TooLarge, true, "the body is longer than the limit"},
		{TooManyRedirects, true, "more redirects than the limit"},
		{RedirectLoop, true, "the redirects form a loop"},
		{BadRedirect, true, "the redirect leads to no URI of http or https"},
		{BadResponse, false, "the answer violates HTTP"},
		{Incomplete, false, "the connection ended before the body did"},
		{BadEncoding, true, "the body is not compressed as the answer says"},
		{Proxy, false, "the proxy cannot be used"},
		{ProxyTarget, false, "the proxy cannot reach the host"},
		{Status, false, "the host answered with an error"},
		{Storage, false, "there is no space here for the body"},
		{Canceled, false, "the request was canceled"},
	}
}

var meanings = func() map[Reason]Meaning {
	m := map[Reason]Meaning{}
	for _, one := range Reasons() {
		m[one.Reason] = one
	}
	return m
}()
