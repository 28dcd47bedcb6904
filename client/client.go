package client

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	defaultTimeout  = 30 * time.Second
	defaultPatience = 10 * time.Second
	// idleConnections is the number of connections kept open to a daemon. The
	// standard transport keeps two, so that many goroutines would dial all the time.
	idleConnections = 64
	// maxAge is how long a connection takes calls. Then the address is looked up once more, and a load
	// balancer chooses once more. NATs forget idle connections later, and daemons close them later.
	maxAge = time.Minute
)

// Client calls a daemon, or one of several that share a store. It is safe for
// concurrent use.
type Client struct {
	servers  *servers
	token    string
	http     *http.Client
	quick    *quick        // nil: everything goes through http
	timeout  time.Duration // of one attempt, streams excepted; 0: none
	patience time.Duration
	inDoubt  Doubt
	log      *slog.Logger // nil: slog.Default()
	toldOver sync.Map     // filters, as callers name them, of noteOver has logged
}

// Option changes a Client as it is made.
type Option func(*Client)

// WithToken sends token as `Authorization: Bearer` with every call.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient uses h, for its TLS settings, proxies or transport. The client works
// on a copy that does not follow redirects, whatever h says: a POST that is
// redirected would arrive as a GET. How old its connections get is up to its transport.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithTimeout limits each attempt of a call from the first byte sent to the last one
// read; 30 s by default, 0 for none. The calls that stream ([Client.FilterLines] and
// its siblings) are limited by their context only.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithPatience lets a call retry for up to d while no server takes it: while connections are
// refused, as during a restart, or a daemon answers that it is not ready. Default: 10 s.
// Each server is tried at least once; 0 means no more than that. The package comment says
// which calls may be repeated.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// New makes a client of the daemon at address, such as http://127.0.0.1:8000. The
// scheme may be left out and is then http; a path is kept as a prefix. Several
// addresses, with commas between them, are daemons that share one store: calls go to
// one of them until it fails, then to the next. Nothing is sent until the first call;
// [Client.Ready] asks whether a daemon is there. With an error the client is nil, and
// its methods panic.
func New(address string, options ...Option) (*Client, error) {
	all, err := parseServers(address)
	if err != nil {
		return nil, err
	}
	c := &Client{servers: all, timeout: defaultTimeout, patience: defaultPatience}
	for _, option := range options {
		option(c)
	}
	if c.inDoubt > DoubtNew {
		return nil, errors.New("client: WithInDoubt: want DoubtError, DoubtSeen or DoubtNew")
	}
	if strings.ContainsFunc(c.token, unicode.IsControl) {
		return nil, errors.New("client: the token has a control character in it, such as the end of a line")
	}
	if c.http == nil {
		transport := newTransport()
		c.quick = newQuick(all, transport)
		if own, ok := transport.(*http.Transport); ok {
			transport = &aging{transport: own}
		}
		c.http = &http.Client{Transport: transport}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it, which we respect
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	t.DisableCompression = true
	t.IdleConnTimeout = cmp.Or(t.IdleConnTimeout, maxAge) // some calls of one that aging has replaced end later
	return t
}

// aging is a transport that is replaced by a copy when its connections may be older than maxAge.
type aging struct {
	mu        sync.Mutex // guards the following
	transport *http.Transport
	since     time.Time
}

func (a *aging) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	t := a.transport
	if time.Since(a.since) >= maxAge {
		t = t.Clone()
		a.transport.CloseIdleConnections() // and each other one at the end of its call
		a.transport, a.since = t, time.Now()
	}
	a.mu.Unlock()
	return t.RoundTrip(r)
}

// CloseIdleConnections is called by that of http.Client.
func (a *aging) CloseIdleConnections() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.transport.CloseIdleConnections()
}

// mustBeMade panics with a clear message if a client was not returned by New. A later nil
// dereference would only name a line of this package.
func (c *Client) mustBeMade() {
	if c == nil || c.servers == nil {
		panic("client: a *Client that is nil, or not made by New, was used: look at New's error before the first call")
	}
}

// URL returns the address of the daemon that is currently called, as errors show it.
func (c *Client) URL() string {
	c.mustBeMade()
	return c.servers.now().base.Redacted()
}

// Close closes the idle connections. The client can still be used.
func (c *Client) Close() {
	c.mustBeMade()
	c.http.CloseIdleConnections()
	if c.quick != nil {
		c.quick.close()
	}
}

// address is the URL of a call at one server.
func address(base *url.URL, path []string, query url.Values) *url.URL {
	u := *base
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	u.RawPath = u.EscapedPath() + "/" + strings.Join(escaped, "/")
	u.Path += "/" + strings.Join(path, "/")
	u.RawQuery = query.Encode()
	return &u
}
