package filters

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newShow() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := conn.Calling(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show one filter",
		Example: "  urifilter filters show uri_generator",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		info, err := daemon.GetFilter(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), info)
		}
		return writeFilter(cmd.OutOrStdout(), info)
	})
	command.JSONFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = conn.CompleteFilter
	return cmd
}
