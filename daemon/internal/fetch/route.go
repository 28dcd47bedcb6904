package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/socks"
)

// maxRoutes is how many proxies may have idle connections.
const maxRoutes = 256

// maxIdlePerHost is how many idle connections to one server are kept: as many as a job may have
// requests to a host at once, because a closed one must be made again, perhaps with TLS.
// Options.IdleConns bounds their total.
const maxIdlePerHost = 100

// route is a way to servers: direct, or through one proxy. Connections of different routes are
// never mixed up.
type route struct {
	f         *Fetcher
	proxy     *url.URL // nil: direct
	whole     bool     // the proxy speaks HTTP, and gets the whole URI
	transport *http.Transport
	tls       *tls.Config
}

// route returns the route through a proxy, nil for the direct one. When there are too many,
// the oldest are dropped.
func (f *Fetcher) route(by *proxies.Proxy) (*route, error) {
	key := ""
	if by != nil {
		key = by.URL.String()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.routes[key]; r != nil {
		return r, nil
	}
	if len(f.oldest) == maxRoutes {
		f.routes[f.oldest[0]].transport.CloseIdleConnections()
		delete(f.routes, f.oldest[0])
		f.oldest = f.oldest[1:]
	}
	r := &route{f: f, tls: &tls.Config{RootCAs: f.o.Roots, NextProtos: []string{"h2", "http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1024)}}
	r.transport = &http.Transport{
		DialContext: f.lenient(r.dial), DialTLSContext: f.lenient(r.dialTLS), TLSClientConfig: r.tls.Clone(), ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConns: f.o.IdleConns, MaxIdleConnsPerHost: maxIdlePerHost, IdleConnTimeout: f.o.IdleTime, MaxResponseHeaderBytes: f.o.MaxHeaderBytes,
		TLSHandshakeTimeout: time.Minute, ReadBufferSize: 16 << 10,
		// All requests to a host share one connection of HTTP/2: on one whose other end has gone without a word they would
		// all run into their timeouts, for as long as the kernel sends again what it has not got through.
		HTTP2: &http.HTTP2Config{SendPingTimeout: f.o.Silence, PingTimeout: f.o.Silence},
	}
	if by != nil {
		r.proxy = by.URL
		if r.whole = !strings.HasPrefix(r.proxy.Scheme, "socks"); r.whole {
			r.transport.Proxy = http.ProxyURL(r.proxy)
			r.transport.OnProxyConnectResponse = connectAnswer
		}
	}
	f.routes[key], f.oldest = r, append(f.oldest, key)
	return r, nil
}

// connectAnswer handles the answer of an HTTP proxy to a CONNECT.
func connectAnswer(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return &proxyError{err: statusError(answer.StatusCode)}
	}
	return &proxyError{target: true, err: statusError(answer.StatusCode)}
}

// dial connects to a server, or to the proxy. net/http calls it with a context that does not end
// with the request, because the connection may serve another one.
func (r *route) dial(ctx context.Context, network, address string) (net.Conn, error) {
	h, ok := ctx.Value(hopKey{}).(*hop)
	if !ok {
		return nil, fmt.Errorf("dial %s: not by a fetch", address)
	}
	ctx, cancel := context.WithTimeout(ctx, h.w.r.Connect)
	defer cancel()
	h.onEnd(cancel)
	d := r.f.guard.Dialer()
	d.Resolver, d.KeepAlive = r.f.o.Resolver, -1
	if r.proxy == nil {
		return d.DialContext(ctx, network, address)
	}
	d.ControlContext = r.f.guard.Proxy(r.proxy.Hostname())
	conn, err := d.DialContext(ctx, network, r.proxy.Host)
	if err != nil {
		return nil, &proxyError{err: err}
	}
	h.onEnd(func() { _ = conn.Close() }) // also while net/http talks to the proxy
	if r.whole && r.proxy.Scheme == "http" {
		h.reachedProxy()
	}
	if !r.whole {
		if err := r.throughSocks(h, conn, address); err != nil {
			_ = conn.Close()
			return nil, err
		}
		h.reachedProxy()
	}
	return conn, nil
}

// throughSocks asks a SOCKS proxy for a connection. It ends when conn is closed.
func (r *route) throughSocks(h *hop, conn net.Conn, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return &proxyError{err: err}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return &proxyError{err: err}
	}
	to := socks.Target{Host: host, Port: uint16(n), Addr: h.w.at.Addr}
	if r.proxy.Scheme == "socks5" {
		to.Addr = h.pinned
	}
	password, _ := r.proxy.User.Password()
	if err := socks.Connect(conn, to, socks.Login{User: r.proxy.User.Username(), Password: password}); err != nil {
		return &proxyError{err: err}
	}
	return nil
}

// dialTLS connects to a server by TLS, or to a proxy that speaks HTTP by TLS.
func (r *route) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := r.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	h := ctx.Value(hopKey{}).(*hop) // dial has set it
	ctx, cancel := context.WithTimeout(ctx, h.w.r.Connect)
	defer cancel()
	h.onEnd(cancel)
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	config := r.tls.Clone()
	config.ServerName = strings.TrimSuffix(host, ".")
	if r.whole {
		config.NextProtos = nil // CONNECT is HTTP/1.1
	}
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if err = error(&handshakeError{err}); r.whole {
			err = &proxyError{err: err}
		}
		return nil, err
	}
	if r.whole {
		h.reachedProxy()
	}
	return over, nil
}

// onEnd arranges that end is called if the walk ends before there is a connection.
func (h *hop) onEnd(end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		end()
	} else if h.at == connecting {
		h.undo = append(h.undo, end)
	}
}

func (h *hop) reachedProxy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.toProxy = true
}
