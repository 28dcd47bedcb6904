package filters

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newList() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := conn.Calling(&cobra.Command{
		Use:   "list",
		Short: "List the filters",
		Long: `List the filters of a daemon. ITEMS is an estimate, FULL its share of the capacity;
at 100 % the error rate that was asked for is reached. ERROR NOW is the estimated share
of new items that would be taken for seen. Of filters of the kind timing, which are
exact, ITEMS are those that have not expired, and EXPIRE is how long an item is
remembered unless the call says otherwise; of those of the kind exact all that there are,
of those of the kind simhash the documents.`,
		Example: `  urifilter filters list
  urifilter filters list --json | jq -r '.filters[].name'`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
		list, err := daemon.Filters(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), client.FilterList{Filters: list})
		}
		return writeTable(cmd.OutOrStdout(), list)
	})
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
