package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	// idleConnections is the number of connections kept open to the daemon. The
	// standard transport keeps two, so that many goroutines would dial all the time.
	idleConnections = 64
)

// Client calls one daemon. It is safe for concurrent use.
type Client struct {
	base    *url.URL // path without a slash at its end
	token   string
	http    *http.Client
	timeout time.Duration // of one call, streams excepted; 0: none
}

// Option changes a Client as it is made.
type Option func(*Client)

// WithToken sends token as `Authorization: Bearer` with every call.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient uses h, for its TLS settings, proxies or transport. The client works
// on a copy that does not follow redirects, whatever h says: a POST that is
// redirected would arrive as a GET.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithTimeout limits each call from the first byte sent to the last one read; 30 s by
// default, 0 for none. The calls that stream ([Client.FilterLines] and its siblings)
// are limited by their context only.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New makes a client of the daemon at baseURL, such as http://127.0.0.1:8000. The
// scheme may be left out and is then http; a path is kept as a prefix. Nothing is
// sent until the first call; [Client.Ready] asks whether the daemon is there.
func New(baseURL string, options ...Option) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{base: base, timeout: defaultTimeout}
	for _, option := range options {
		option(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func newTransport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // a program replaced it: its choice
		return http.DefaultTransport
	}
	t := standard.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	t.DisableCompression = true
	return t
}

func parseBase(text string) (*url.URL, error) {
	full := text
	if !strings.Contains(text, "://") {
		full = "http://" + text
	}
	u, err := url.Parse(full)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("server address %q: %w", text, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("server address %q: scheme %q: want http or https", text, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("server address %q: no host: want http://HOST:PORT", text)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server address %q: want no query and no fragment", text)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// URL returns the address of the daemon, as it is shown in errors.
func (c *Client) URL() string { return c.base.Redacted() }

// Close closes the connections that are idle. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request before it has an address.
type call struct {
	method string
	path   []string // elements, not yet escaped
	query  url.Values
	kind   string // content type of the body
	body   io.Reader
	length int64 // of body; -1: not known
}

func (c *Client) address(path []string, query url.Values) *url.URL {
	u := *c.base
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	u.RawPath = u.EscapedPath() + "/" + strings.Join(escaped, "/")
	u.Path += "/" + strings.Join(path, "/")
	u.RawQuery = query.Encode()
	return &u
}

// send returns the answer if its status is 2xx; the caller closes its body. Any
// other status becomes an *Error.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	u := c.address(k.path, k.query)
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), k.body)
	if err != nil {
		return nil, err
	}
	if k.body != nil {
		req.ContentLength = k.length
		req.Header.Set("Content-Type", k.kind)
		// Without it the transport could send the body a second time.
		req.GetBody = nil
	}
	req.Header.Set("User-Agent", "urifilter-client-go")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, explain(req, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, readError(req, res)
	}
	return res, nil
}

// explain says in which request err happened, and why its context ended if that is so.
func explain(req *http.Request, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if cause := context.Cause(req.Context()); cause != nil && errors.Is(err, req.Context().Err()) {
		err = cause
	}
	return fmt.Errorf("%s %s: %w", req.Method, req.URL.Redacted(), err)
}

// exchange sends body and reads the whole answer, so that the connection can be used again.
func (c *Client) exchange(ctx context.Context, k call, body []byte) (status int, answer []byte, err error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout,
			fmt.Errorf("no whole answer within %s: %w", c.timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if body != nil {
		k.body, k.length, k.kind = bytes.NewReader(body), int64(len(body)), "application/json"
	}
	res, err := c.send(ctx, k)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if res.ContentLength > 0 {
		answer = make([]byte, res.ContentLength)
		_, err = io.ReadFull(res.Body, answer)
	} else {
		answer, err = io.ReadAll(res.Body)
	}
	if err != nil {
		return 0, nil, explain(res.Request, fmt.Errorf("answer: %w", err))
	}
	return res.StatusCode, answer, nil
}
