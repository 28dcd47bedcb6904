package connection

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// Target is the daemon that the flags name, for commands that write their calls themselves.
type Target struct {
	URL   *url.URL // its path has no slash at the end
	Token string
}

// Target reads the flags. It makes no call.
func (c *Flags) Target(cmd *cobra.Command) (Target, error) {
	daemon, err := c.Dial(cmd) // reports faults of the flags
	if err != nil {
		return Target{}, err
	}
	daemon.Close()
	text := FlagOrEnv(cmd, "server", c.server, "URIFILTER_URL")
	if strings.Contains(text, ",") {
		return Target{}, command.UsageError{Err: fmt.Errorf("--server %s: want one daemon", text)}
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, command.UsageError{Err: err}
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	token, err := c.token.Read(cmd)
	return Target{URL: u, Token: token}, err
}

// Connect opens a connection for HTTP/1.1, with TLS if the URL says so. It uses no proxy.
func (t Target) Connect(ctx context.Context) (net.Conn, error) {
	port := t.URL.Port()
	secure := t.URL.Scheme == "https"
	switch {
	case port == "" && secure:
		port = "443"
	case port == "":
		port = "80"
	}
	address := net.JoinHostPort(t.URL.Hostname(), port)
	if secure {
		d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
		return d.DialContext(ctx, "tcp", address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
