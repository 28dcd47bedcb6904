package filters

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func newDrop() *cobra.Command {
	cmd := forgetting("drop NAME", "drop", func(cmd *cobra.Command, daemon *client.Client, name string) error {
		if err := daemon.DropFilter(cmd.Context(), name); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: dropped\n", name); err != nil {
			return err
		}
		isDefault := func(f configs.Filter) bool { return f.Name == name || strconv.Itoa(f.ID) == name }
		if slices.ContainsFunc(configs.Default().Filters, isDefault) {
			fmt.Fprintf(cmd.ErrOrStderr(), "urifilter: %s is a default filter: the next start of the daemon makes it again, empty, unless its settings list other filters%s"+
				"leave it out of `filters` in the settings\n", name, command.HintMark)
		}
		return nil
	})
	cmd.Short = "Forget a filter and all its items"
	cmd.Long = `Forget a filter and all its items. It cannot be undone, so the name must be
confirmed. It needs a token of the scope admin, where tokens are in use. A filter that the
daemon's settings list, as they do the five default ones, is there again after its next start, empty.`
	cmd.Example = "  urifilter filters drop pages --confirm pages"
	return cmd
}
