package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newMerge() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := conn.Calling(&cobra.Command{
		Use:   "merge FROM INTO",
		Short: "Make all items of a filter seen in another one",
		Long: `Make all items of one filter seen in another one, which is then what it would be if they
had been added to it, too. The first one stays as it is; what is added to it meanwhile may
be missing. It can be repeated. It needs a token of the scope admin, where tokens are in
use.

Both must be of one kind, normalize URIs alike, and hash items with one secret: the second
is made for it with "urifilter filters create INTO --like FROM". Filters of the kind bloom
must besides be made for the same number of items at the same error rate. Clearing a
filter changes its secret. Filters of other kinds than bloom, exact and timing cannot be
merged; exact and timing need the embedded store for the first of the two.`,
		Example: "  urifilter filters create pages_2 --like pages\n  urifilter filters merge pages_2 pages\n  urifilter filters drop pages_2 --confirm pages_2",
		Args:    cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		info, err := daemon.MergeFilter(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), info)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: has what %s has, %s items in all\n", info.Name, args[0], human.Count(int64(items(info)))); err != nil {
			return err
		}
		if made := capacity(info); made > 0 && items(info) > made {
			fmt.Fprintf(cmd.ErrOrStderr(), "urifilter: %s has more items than it was made for: about %.2g of new ones are taken for seen\n", info.Name, info.FPREstimate)
		}
		return nil
	})
	command.JSONFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return conn.CompleteFilter(cmd, nil, text) // both are names of filters
	}
	return cmd
}
