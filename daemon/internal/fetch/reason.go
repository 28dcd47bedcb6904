package fetch

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
