package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
)

const userAgent = "urifilter-client-go"

// call is one request before it has a server.
type call struct {
	method string
	path   []string // elements, not yet escaped
	query  url.Values
	kind   string // content type of the body
	body   io.Reader
	length int64  // of body; -1: not known
	accept string // types of the answer; "": any
	filter string // that is called; "": none

	idempotent bool  // may be repeated whatever happened to it
	changes    bool  // changes the filter, although it is idempotent and not a PUT
	doubt      Doubt // if it is not idempotent
	once       bool  // each server is called once, without patience
	streams    bool  // the answer may end with a problem
	untimed    bool  // only the context limits it
}

// looks reports whether the call changes nothing.
func (k *call) looks() bool { return k.idempotent && k.method != http.MethodPut && !k.changes }

// ConnectionError is a call that got no whole answer, or one that no daemon gives.
type ConnectionError struct {
	// Method and URL name the request.
	Method, URL string
	// InDoubt says that the whole request had left, so that the daemon may have carried
	// it out.
	InDoubt bool
	Err     error

	remembers bool // the call was to remember items
}

func (e *ConnectionError) Error() string {
	text := fmt.Sprintf("%s %s: %v", e.Method, e.URL, e.Err)
	if e.Method == "" {
		text = e.Err.Error()
	}
	if e.InDoubt && e.remembers {
		text += " (items may have been remembered)"
	}
	return text
}

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// send returns the answer if its status is 2xx; the caller closes its body. Any other
// status becomes an *Error, and no answer a *ConnectionError.
func (c *Client) send(ctx context.Context, srv *server, k call) (*http.Response, error) {
	u := address(srv.base, k.path, k.query)
	var left atomic.Bool // the whole request
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { left.Store(false) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { left.Store(info.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), k.body)
	if err != nil {
		return nil, err
	}
	if k.body != nil {
		req.ContentLength = k.length
		req.Header.Set("Content-Type", k.kind)
		// With it the transport could send the body a second time.
		req.GetBody = nil
	}
	req.Header.Set("User-Agent", userAgent)
	if k.accept != "" {
		req.Header.Set("Accept", k.accept)
	}
	if k.streams {
		req.Header.Set("TE", "trailers") // the error that ends a stream early is in one
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, explain(ctx, k.method, u, err, left.Load())
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, readError(k.method, u, res)
	}
	return res, nil
}

// explain adds to err the request in which it happened, and, if the context ended, why.
func explain(ctx context.Context, method string, u *url.URL, err error, left bool) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	ended := ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, os.ErrDeadlineExceeded))
	if ended {
		err = context.Cause(ctx)
	}
	return &ConnectionError{Method: method, URL: u.Redacted(), InDoubt: left, Err: err, remembers: strings.HasSuffix(u.Path, "/filter")}
}
