package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
)

func newDrop() *cobra.Command {
	cmd := forgetting("drop NAME", "drop", func(cmd *cobra.Command, daemon *client.Client, name string) error {
		if err := daemon.DropFilter(cmd.Context(), name); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: dropped\n", name)
		return err
	})
	cmd.Short = "Forget a filter and all its items"
	cmd.Long = `Forget a filter and all its items. It cannot be undone, so the name must be
confirmed. It needs a token of the scope admin, where tokens are in use.`
	cmd.Example = "  urifilter filters drop pages --confirm pages"
	return cmd
}
