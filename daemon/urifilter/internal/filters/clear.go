package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func newClear() *cobra.Command {
	var asJSON bool
	cmd := forgetting("clear NAME", "clear", func(cmd *cobra.Command, daemon *client.Client, name string) error {
		info, err := daemon.ClearFilter(cmd.Context(), name)
		if err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), info)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: cleared, id %d as before, generation %d\n", info.Name, info.ID, info.Generation)
		return err
	})
	cmd.Short = "Forget all items of a filter, which stays"
	cmd.Long = `Forget all items of a filter in one step. The filter keeps its id, its name and its
parameters, and whoever asks meanwhile is answered. It cannot be undone, so the name
must be confirmed. It needs a token of the scope admin, where tokens are in use.`
	cmd.Example = "  urifilter filters clear pages --confirm pages"
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
