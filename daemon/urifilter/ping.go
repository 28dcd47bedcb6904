package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// exitNotReady distinguishes a daemon that answers but accepts no batches from one that does not answer.
const exitNotReady = 3

// pingResult is what ping --json prints.
type pingResult struct {
	URL     string  `json:"url"`
	Alive   bool    `json:"alive"`
	Ready   bool    `json:"ready"`
	Version string  `json:"version,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // one request and its answer
	Detail  string  `json:"detail,omitempty"`  // why it is not ready, or does not answer
}

func newPingCommand() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := conn.Calling(&cobra.Command{
		Use:   "ping",
		Short: "Ask a daemon whether it is up and ready",
		Long: `Ask a daemon once whether it is up, whether it is ready to take batches, and which
version it is; and print how long it took to answer. No token is needed.

Exit codes: 0 it is ready, 1 it does not answer, 3 it answers and is not ready (it
starts, stops, or waits for Redis or the archive).`,
		Example: `  urifilter ping
  urifilter ping --server filter.example.com:8000 --timeout 2s || echo "not ready"`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
		pong, err := daemon.Ping(cmd.Context())
		result := pingResult{URL: pong.URL, Alive: err == nil, Ready: pong.Ready, Version: pong.Version, Seconds: pong.Took.Seconds(), Detail: pong.Detail}
		if err != nil {
			result.Detail = err.Error()
		}
		if asJSON {
			if err := command.WriteJSON(cmd.OutOrStdout(), result); err != nil {
				return err
			}
		}
		switch {
		case err != nil && asJSON:
			return command.ExitCode(command.ExitFailure)
		case err != nil:
			return err
		}
		state := "ready"
		if !pong.Ready {
			state = "not ready: " + pong.Detail
		}
		if !asJSON {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s (urifilter %s, %s)\n", pong.URL, state, pong.Version, human.Duration(pong.Took.Round(10*time.Microsecond))); err != nil {
				return err
			}
		}
		if !pong.Ready {
			return command.ExitCode(exitNotReady)
		}
		return nil
	})
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
