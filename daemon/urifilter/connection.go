package main

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
	defaultType    = "uri"
	completionWait = time.Second
)

// connection is the flags of commands that call a daemon.
type connection struct {
	server  string
	token   credential
	timeout time.Duration

	patience time.Duration // of commands that wait for a daemon
}

func (c *connection) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.server, "server", "s", defaultServer, "`URL` of the daemon; without a scheme it is http (env URIFILTER_URL)")
	c.token.register(cmd)
	f.DurationVar(&c.timeout, "timeout", time.Minute, "give up a call to the daemon after this time")
}

// registerPatience is for commands that go on when a daemon is back.
func (c *connection) registerPatience(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.patience, "patience", 30*time.Second, "go on for this time while the daemon restarts, is not ready or is too busy; 0: do not wait")
}

func (c *connection) dial(cmd *cobra.Command) (*client.Client, error) {
	server := flagOrEnv(cmd, "server", c.server, "URIFILTER_URL")
	token, err := c.token.read(cmd)
	if err != nil {
		return nil, err
	}
	if c.timeout <= 0 {
		return nil, command.UsageError{Err: fmt.Errorf("--timeout %s: want more than 0", c.timeout)}
	}
	if c.patience < 0 {
		return nil, command.UsageError{Err: fmt.Errorf("--patience %s: want 0 or more", c.patience)}
	}
	daemon, err := client.New(server, client.WithToken(token), client.WithTimeout(c.timeout), client.WithPatience(0),
		client.WithLogger(slog.New(slog.DiscardHandler))) // commands say in the end that a filter is past its capacity
	if err != nil {
		return nil, command.UsageError{Err: err}
	}
	return daemon, nil
}

// flagOrEnv is the value of a flag that was given, else of the variable, else the default.
func flagOrEnv(cmd *cobra.Command, flag, value, variable string) string {
	if env := os.Getenv(variable); env != "" && !cmd.Flags().Changed(flag) {
		return env
	}
	return value
}

// completeFilter offers the names of the daemon's filters, if it answers at once.
func (c *connection) completeFilter(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Flags().Lookup("type") == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	daemon, err := c.dial(cmd)
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
		names = append(names, cobra.CompletionWithDesc(f.Name, f.Kind+", about "+human.Count(int64(f.ItemsEstimate))+" items"))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
