package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newCreate() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	var spec client.FilterSpec
	var params parameterFlags
	cmd := conn.Calling(&cobra.Command{
		Use:   "create NAME",
		Short: "Create a filter",
		Long: `Create a filter, or find that it is there with the same parameters. What no flag
says is the daemon's default. It needs a token of the scope admin, where tokens are
in use.

A filter of the kind bloom remembers for ever; one of the kind timing remembers each
item for a time, --expire unless the call says another, and exactly; one of the kind
exact until the item is forgotten, exactly, and any number of them. One of the kind
simhash remembers fingerprints of texts, and is asked with "urifilter near".

Each filter hashes items with a secret of its own. One that is made --like another has its
kind, its parameters and its secret, so that "urifilter filters merge" can bring the items
of both together.`,
		Example: `  # 150 million items, of which one in ten thousand may be missed: 470 MB
  urifilter filters create pages --capacity 150M --error-rate 0.0001

  # items are new again an hour after they were accepted
  urifilter filters create news --kind timing --expire 1h

  # no item is missed, of however many: 18 bytes of memory each, or 8
  urifilter filters create jobs --kind exact
  urifilter filters create pages --kind exact --digest 64

  # which pages are nearly the same? With the fingerprints of the Python module simhash
  urifilter filters create pages --kind simhash --feature-hash md5

  # for a second crawl, to be merged into pages in the end
  urifilter filters create pages_2 --like pages`,
		Args: cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		spec.More = params.given(cmd.Flags())
		info, created, err := daemon.CreateFilter(cmd.Context(), args[0], spec)
		switch {
		case err != nil:
			return err
		case asJSON:
			return command.WriteJSON(cmd.OutOrStdout(), info)
		case !created:
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: unchanged, it exists with these parameters\n", info.Name)
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), createdText(info))
		}
		return err
	})
	command.JSONFlag(cmd, &asJSON)
	f := cmd.Flags()
	f.StringVar(&spec.Kind, "kind", "", "`kind` of filter: "+configs.KindNames())
	f.IntVar(&spec.ID, "id", 0, "`number` that callers may use instead of the name")
	f.StringVar(&spec.Like, "like", "", "`name` of a filter whose kind, parameters and secret it is to have")
	completeWith(cmd, "like", conn.CompleteFilter)
	params = newParameterFlags(cmd)
	var names []cobra.Completion
	for _, kind := range configs.Kinds() {
		names = append(names, kind.Name)
	}
	completeFlag(cmd, "kind", names)
	return cmd
}
