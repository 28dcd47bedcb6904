// Package connection lets commands reach a daemon: the flags that name it, the token that it
// requires, how long the items of a call are remembered, and the next step after an error of a
// call. The calls themselves are in package client.
package connection

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

const (
	defaultServer  = "http://127.0.0.1:8000"
	completionWait = time.Second
)

// Flags are the flags of commands that call a daemon.
type Flags struct {
	server  string
	token   command.Credential
	Timeout time.Duration // of one call

	Patience time.Duration // of commands that wait for a daemon
}

// Register adds the flags to a command.
func (c *Flags) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.server, "server", "s", defaultServer, "`URL` of the daemon; without a scheme it is http (env URIFILTER_URL)")
	c.token.Register(cmd, "URIFILTER")
	f.DurationVar(&c.Timeout, "timeout", time.Minute, "give up a call to the daemon after this time")
}

// RegisterPatience adds the flag for commands that wait until a daemon is back.
func (c *Flags) RegisterPatience(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.Patience, "patience", 30*time.Second, "keep trying for this time while the daemon restarts, is not ready or is too busy; 0: do not wait")
}

// Server returns the URL of the daemon, or those of several with commas between.
func (c *Flags) Server(cmd *cobra.Command) string {
	return command.FlagOrEnv(cmd, "server", c.server, "URIFILTER_URL")
}

// Dial makes the client that the flags describe. It makes no call; a fault of the flags is a
// [command.UsageError]. The caller closes the client.
func (c *Flags) Dial(cmd *cobra.Command) (*client.Client, error) {
	server := c.Server(cmd)
	token, err := c.token.Read(cmd)
	if err != nil {
		return nil, err
	}
	if c.Timeout <= 0 {
		return nil, command.UsageError{Err: fmt.Errorf("--timeout %s: want more than 0", c.Timeout)}
	}
	if c.Patience < 0 {
		return nil, command.UsageError{Err: fmt.Errorf("--patience %s: want 0 or more", c.Patience)}
	}
	daemon, err := client.New(server, client.WithToken(token), client.WithTimeout(c.Timeout), client.WithPatience(0),
		client.WithLogger(slog.New(slog.DiscardHandler))) // commands report at their end that a filter is past its capacity
	if err != nil {
		return nil, command.UsageError{Err: err}
	}
	return daemon, nil
}

// Calling makes a command one that calls a daemon: it adds the flags, and do gets the client.
func (c *Flags) Calling(cmd *cobra.Command, do func(cmd *cobra.Command, daemon *client.Client, args []string) error) *cobra.Command {
	c.Register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		daemon, err := c.Dial(cmd)
		if err != nil {
			return err
		}
		defer daemon.Close()
		return do(cmd, daemon, args)
	}
	return cmd
}

// CompleteFilter offers the names of the daemon's filters, if it answers at once.
func (c *Flags) CompleteFilter(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Flags().Lookup("filter") == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	daemon, err := c.Dial(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer daemon.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	filters, err := daemon.Filters(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, f := range filters {
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Kind+", about "+human.Count(int64(f.ItemsEstimate+f.Items))+" items"))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

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
	text := strings.TrimSpace(c.Server(cmd)) // as the client does
	if strings.Contains(text, ",") {
		return Target{}, command.UsageError{Err: errors.New("--server: want one daemon, not several")}
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

// RegisterFilter adds --filter to a command, and its old name --type. usage says what filters it may name.
func (c *Flags) RegisterFilter(cmd *cobra.Command, name *string, usual, usage string) {
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "type" {
			name = "filter"
		}
		return pflag.NormalizedName(name)
	})
	f.StringVarP(name, "filter", "t", usual, usage+" (env URIFILTER_FILTER)")
	if err := cmd.RegisterFlagCompletionFunc("filter", c.CompleteFilter); err != nil {
		panic(err) // the flag is defined above
	}
}

// Filter returns the filter that a command is to ask: that of the flag, else of the environment, whose old name
// is URIFILTER_TYPE, else the usual one.
func Filter(cmd *cobra.Command, name string) string {
	if os.Getenv("URIFILTER_FILTER") != "" {
		return command.FlagOrEnv(cmd, "filter", name, "URIFILTER_FILTER")
	}
	return command.FlagOrEnv(cmd, "filter", name, "URIFILTER_TYPE")
}

// RESP is the flag of commands that call a daemon's port for Redis clients.
type RESP struct{ url string }

// Register adds the flag to a command.
func (r *RESP) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.url, "resp", "redis://127.0.0.1:6380", "`URL` of the daemon's port for Redis clients (resp.listen); rediss:// with TLS (env URIFILTER_RESP)")
}

// Options returns how the port is called, with the token of other flags. It makes no call.
func (r *RESP) Options(cmd *cobra.Command, token string) (*redis.Options, error) {
	o, err := redis.ParseURL(command.FlagOrEnv(cmd, "resp", r.url, "URIFILTER_RESP"))
	if err != nil {
		if fault, ok := errors.AsType[*url.Error](err); ok { // which would show the password
			err = fault.Err
		}
		return nil, command.UsageError{Err: fmt.Errorf("--resp: %w%swant redis://HOST:PORT, or rediss:// with TLS", err, command.HintMark)}
	}
	if o.DB != 0 {
		return nil, command.UsageError{Err: errors.New("--resp: a daemon has no databases; want redis://HOST:PORT")}
	}
	if token != "" {
		o.Username, o.Password = "", token
	}
	if o.TLSConfig != nil {
		o.TLSConfig.MinVersion = tls.VersionTLS12
	}
	o.DisableIdentity, o.DialerRetries = true, 1
	o.MaxRetries = -1 // a repeated call could do its work twice
	return o, nil
}
