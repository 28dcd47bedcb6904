package service

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// patience is how long one request may take.
const patience = 5 * time.Second

// tunnel is a connection that can open others from the host.
type tunnel interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Caller calls the daemon of a host as if from that host.
type Caller struct {
	host   string
	base   string // http://127.0.0.1:8000
	client *http.Client
	token  string
}

// dial returns a client of the daemon that goes through the connection to the host.
func dial(h host.Host, url, token string) (*Caller, error) {
	through, ok := host.As[tunnel](h)
	if !ok {
		return nil, errNoTunnel
	}
	transport := &http.Transport{
		DialContext: through.DialContext,
		// The tunnel ends on the host itself, whose identity SSH has verified; the daemon's
		// certificate is issued for the name by which callers know it.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	return &Caller{host: h.Name(), base: url, token: token, client: &http.Client{Transport: transport, Timeout: patience}}, nil
}

var errNoTunnel = errors.New("the connection opens no tunnels")

// forbidden reports whether err means that the host's sshd does not open tunnels.
func forbidden(err error) bool {
	return errors.Is(err, errNoTunnel) || errors.Is(err, login.ErrForbidden)
}

// Close ends its idle connections.
func (d *Caller) Close() { d.client.CloseIdleConnections() }

// Host is the name of its host.
func (d *Caller) Host() string { return d.host }

// Call sends one request.
func (d *Caller) Call(ctx context.Context, method, path, body string) (program.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, strings.NewReader(body))
	if err != nil {
		return program.Answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return program.Answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	return program.Answer{Status: res.StatusCode, Body: string(text)}, err
}
