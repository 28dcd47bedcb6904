package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newStatsCommand() *cobra.Command {
	var conn connection.Flags
	var watching command.Watching
	cmd := conn.Calling(&cobra.Command{
		Use:   "stats",
		Short: "Show what a daemon is doing, until interrupted",
		Long: `Show what a daemon is doing: requests and errors, and for each filter its items, how full
it is, and how many items a second are asked about and new. On a terminal the table is
redrawn every --interval, until Ctrl-C; elsewhere one follows the other. Rates are
those since the poll before. The numbers are those of /metrics; calls for /metrics,
/livez and /readyz are not among the requests.

With --once it ends after one table, whose rates are those of one --interval; with
--once --interval 0 that comes at once, without rates. With --json each poll that is
answered is one line of JSON, and standard error has the others.`,
		Example: `  urifilter stats
  urifilter stats --once --interval 0 --json | jq .filters`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
		watching.Terminal = terminal.Is(cmd.OutOrStdout())
		var before *sample
		return command.Watch(cmd.Context(), cmd.OutOrStdout(), watching, func(ctx context.Context) (stats, error) {
			now, err := poll(ctx, daemon)
			if err != nil {
				return stats{}, err
			}
			s := now.since(before)
			before = now
			return s, nil
		}, stats.write)
	})
	watching.Flags(cmd)
	return cmd
}
