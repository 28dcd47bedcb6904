// Package connection lets commands reach a daemon: the flags that name it, the token that it
// requires, how long the items of a call are remembered, and the next step after an error of a
// call. The calls themselves are in package client.
package connection

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

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
	token   Credential
	Timeout time.Duration // of one call

	Patience time.Duration // of commands that wait for a daemon
}

// Register adds the flags to a command.
func (c *Flags) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.server, "server", "s", defaultServer, "`URL` of the daemon; without a scheme it is http (env URIFILTER_URL)")
	c.token.Register(cmd)
	f.DurationVar(&c.Timeout, "timeout", time.Minute, "give up a call to the daemon after this time")
}

// RegisterPatience adds the flag for commands that wait until a daemon is back.
func (c *Flags) RegisterPatience(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.Patience, "patience", 30*time.Second, "keep trying for this time while the daemon restarts, is not ready or is too busy; 0: do not wait")
}

// Dial makes the client that the flags describe. It makes no call; a fault of the flags is a
// [command.UsageError]. The caller closes the client.
func (c *Flags) Dial(cmd *cobra.Command) (*client.Client, error) {
	server := FlagOrEnv(cmd, "server", c.server, "URIFILTER_URL")
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

// FlagOrEnv returns the value of the flag if it was given, else that of the variable, else the default.
func FlagOrEnv(cmd *cobra.Command, flag, value, variable string) string {
	if env := os.Getenv(variable); env != "" && !cmd.Flags().Changed(flag) {
		return env
	}
	return value
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
