package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	quickBuffer = 64 << 10 // of a connection, for reading
	dialTimeout = 10 * time.Second
	// drainTimeout is how long to wait for the answer to a request that could not be sent
	// completely.
	drainTimeout = time.Second
)

// quick sends whole bodies over plain HTTP/1.1 in the goroutine of the caller: one write,
// one read. net/http needs two goroutines and several copies for the same, which costs
// half of the items a second when client and daemon share a machine. quick also knows
// exactly what was sent, and checks that a connection is still alive before it reuses it.
// TLS, proxies, streams and programs with an http.Client or transport of their own use net/http.
type quick struct {
	mu   sync.Mutex // guards idle
	idle map[string][]*quickConn
}

type quickConn struct {
	net.Conn
	in   *bufio.Reader
	made time.Time
}

// usual is the transport with which net/http begins. Another one may also dial in another way.
var usual = http.DefaultTransport

// newQuick returns nil if requests must use net/http, whose transport is given.
func newQuick(all *servers, transport http.RoundTripper) *quick {
	standard, ok := transport.(*http.Transport)
	if !ok || http.DefaultTransport != usual {
		return nil
	}
	for _, s := range all.all {
		if s.base.Scheme != "http" || s.base.User != nil {
			return nil
		}
		if standard.Proxy == nil {
			continue
		}
		if proxy, err := standard.Proxy(&http.Request{URL: s.base}); proxy != nil || err != nil {
			return nil
		}
	}
	return &quick{idle: map[string][]*quickConn{}}
}

func (q *quick) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for host, conns := range q.idle {
		for _, c := range conns {
			c.Close()
		}
		delete(q.idle, host)
	}
}

// connection returns an idle connection that is still alive and not too old, or a new one.
func (q *quick) connection(ctx context.Context, host string) (*quickConn, error) {
	for {
		q.mu.Lock()
		conns := q.idle[host]
		if len(conns) == 0 {
			q.mu.Unlock()
			break
		}
		c := conns[len(conns)-1]
		conns[len(conns)-1] = nil
		q.idle[host] = conns[:len(conns)-1]
		q.mu.Unlock()
		if time.Since(c.made) < maxAge && silent(c.Conn) {
			return c, nil
		}
		c.Close()
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &quickConn{Conn: conn, in: bufio.NewReaderSize(conn, quickBuffer), made: time.Now()}, nil
}

func (q *quick) keepIdle(host string, c *quickConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.idle[host]) >= idleConnections {
		c.Close()
		return
	}
	q.idle[host] = append(q.idle[host], c)
}

// roundTrip makes one request and passes its answer to read, which reads all of it. left
// reports whether the whole request has left this process.
func (q *quick) roundTrip(ctx context.Context, u *url.URL, k call, token string, body []byte, read func(*http.Response) error) (left bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "80")
	}
	c, err := q.connection(ctx, host)
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	keep := false
	defer func() {
		if stop() && keep {
			q.keepIdle(host, c)
		} else {
			c.Close()
		}
	}()
	request := net.Buffers{quickHead(u, k, token, body), body}
	_, writeErr := request.WriteTo(c.Conn)
	if writeErr != nil { // the daemon may have answered and closed; that answer says why
		c.SetReadDeadline(time.Now().Add(drainTimeout))
	}
	var res *http.Response
	for {
		if res, err = http.ReadResponse(c.in, &http.Request{Method: k.method}); err != nil || res.StatusCode >= 200 {
			break
		}
	}
	switch {
	case err != nil && writeErr != nil:
		return false, writeErr
	case err != nil:
		return true, err
	}
	defer res.Body.Close()
	err = read(res)
	if _, rest := io.CopyN(io.Discard, res.Body, 1); rest == io.EOF { // all of it is read
		keep = writeErr == nil && !res.Close && c.in.Buffered() == 0
	}
	return writeErr == nil || err == nil, err
}

// quickHead returns the request line and the header.
func quickHead(u *url.URL, k call, token string, body []byte) []byte {
	head := make([]byte, 0, 512)
	head = fmt.Appendf(head, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", k.method, u.RequestURI(), u.Host, userAgent)
	if token != "" {
		head = append(append(append(head, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	if k.accept != "" {
		head = append(append(append(head, "Accept: "...), k.accept...), "\r\n"...)
	}
	switch {
	case body != nil:
		head = append(append(append(head, "Content-Type: "...), k.kind...), "\r\n"...)
		head = strconv.AppendInt(append(head, "Content-Length: "...), int64(len(body)), 10)
		head = append(head, "\r\n"...)
	case k.method == http.MethodPost || k.method == http.MethodPut:
		head = append(head, "Content-Length: 0\r\n"...)
	}
	return append(head, "\r\n"...)
}
