package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// headerVersion is the header in which a daemon gives its version at /livez.
const headerVersion = "Urifilter-Version"

// Pong is what [Client.Ping] finds out.
type Pong struct {
	URL     string        // of the daemon that answered
	Version string        // "": it does not say
	Took    time.Duration // of the first request and its answer, connecting included
	Ready   bool
	Detail  string // why it is not ready
}

// Ping checks whether a daemon answers, and whether it accepts batches now. It queries one
// daemon, once, and does not wait. An error says that none answers; the answer of a daemon
// that it is not ready is no error.
func (c *Client) Ping(ctx context.Context) (Pong, error) {
	c.mustBeMade()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	srv := c.servers.now()
	pong := Pong{URL: srv.base.Redacted()}
	look := func(path string) (http.Header, error) {
		res, err := c.send(ctx, srv, call{method: http.MethodGet, path: []string{path}, idempotent: true, once: true})
		if err != nil {
			return nil, looked(err)
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, errorBodyLimit))
		return res.Header, err
	}
	start := time.Now()
	header, err := look("livez")
	if err != nil {
		return pong, err
	}
	pong.Took, pong.Version = time.Since(start), header.Get(headerVersion)
	_, err = look("readyz")
	var answer *Error
	switch {
	case err == nil:
		pong.Ready = true
	case errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable:
		pong.Detail = answer.Detail
	default:
		return pong, err
	}
	return pong, nil
}

// Metrics returns the daemon's metrics in the text format of Prometheus. It queries each daemon
// once and does not wait. If auth.protect_metrics is set, it needs a token of the read scope.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	answer, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"metrics"}, idempotent: true, once: true}, nil, nil)
	return answer.body, err
}
