// Package filters holds the commands that list, show, create, clear and drop the filters of a
// daemon.
package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// New makes the command filters.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filters",
		Short: "List, show, create, clear and drop filters",
		Long:  "List, show, create, clear and drop the filters of a daemon.",
		Example: `  urifilter filters list
  urifilter filters create pages --capacity 150M --error-rate 0.0001
  urifilter filters create news --kind timing --expire 1h`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newList(), newShow(), newCreate(), newClear(), newDrop())
	return cmd
}

func newList() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := conn.Dial(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			list, err := daemon.Filters(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), client.FilterList{Filters: list})
			}
			return writeTable(cmd.OutOrStdout(), list)
		},
	}
	conn.Register(cmd)
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func newShow() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one filter",
		Example: "  urifilter filters show uri_generator",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := conn.Dial(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			info, err := daemon.GetFilter(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), info)
			}
			return writeFilter(cmd.OutOrStdout(), info)
		},
	}
	conn.Register(cmd)
	command.JSONFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = conn.CompleteFilter
	return cmd
}

func newCreate() *cobra.Command {
	var conn connection.Flags
	var asJSON bool
	var spec client.FilterSpec
	var params parameterFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a filter",
		Long: `Create a filter, or find that it is there with the same parameters. What no flag
says is the daemon's default. It needs a token of the scope admin, where tokens are
in use.

A filter of the kind bloom remembers for ever; one of the kind timing remembers each
item for a time, --expire unless the call says another, and exactly; one of the kind
exact until the item is forgotten, exactly, and any number of them. One of the kind
simhash remembers fingerprints of texts, and is asked with "urifilter near".`,
		Example: `  # 150 million items, of which one in ten thousand may be missed: 470 MB
  urifilter filters create pages --capacity 150M --error-rate 0.0001

  # items are new again an hour after they were accepted
  urifilter filters create news --kind timing --expire 1h

  # no item is missed, of however many: 18 bytes of memory each
  urifilter filters create jobs --kind exact

  # which pages are nearly the same? With the fingerprints of the Python module simhash
  urifilter filters create pages --kind simhash --feature-hash md5`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := conn.Dial(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			spec.More = params.given(cmd.Flags())
			info, created, err := daemon.CreateFilter(cmd.Context(), args[0], spec)
			switch {
			case err != nil:
				return err
			case asJSON:
				return command.WriteJSON(cmd.OutOrStdout(), info)
			case !created:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: unchanged, it exists with these parameters\n", info.Name)
			case configs.Expires(info.Kind):
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: created, id %d, items expire %s\n", info.Name, info.ID, expiry(info))
			case info.Capacity == 0:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: created, id %d\n", info.Name, info.ID)
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: created, id %d, for %s items at an error rate of %g, %s\n",
					info.Name, info.ID, human.Count(int64(info.Capacity)), info.ErrorRate, human.Bytes(int64(info.Bytes)))
			}
			return err
		},
	}
	conn.Register(cmd)
	command.JSONFlag(cmd, &asJSON)
	f := cmd.Flags()
	f.StringVar(&spec.Kind, "kind", "", "`kind` of filter: "+configs.KindNames())
	f.IntVar(&spec.ID, "id", 0, "`number` that callers may use instead of the name")
	params = newParameterFlags(cmd)
	var names []cobra.Completion
	for _, kind := range configs.Kinds() {
		names = append(names, kind.Name)
	}
	completeFlag(cmd, "kind", names)
	return cmd
}

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

// forgetting is a command that forgets the items of a filter whose name is confirmed.
func forgetting(use, verb string, do func(cmd *cobra.Command, daemon *client.Client, name string) error) *cobra.Command {
	var conn connection.Flags
	var confirm string
	var yes bool
	cmd := &cobra.Command{
		Use:  use,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case confirm != "" && confirm != name:
				return command.UsageError{Err: fmt.Errorf("%s %s: --confirm names another filter, %q", verb, name, confirm)}
			case confirm == "" && !yes:
				return command.UsageError{Err: fmt.Errorf("%s %s: all its items would be forgotten%sadd --confirm %s if that is meant", verb, name, command.HintMark, name)}
			}
			daemon, err := conn.Dial(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			return do(cmd, daemon, name)
		},
	}
	conn.Register(cmd)
	cmd.Flags().StringVar(&confirm, "confirm", "", "repeat the `name` of the filter to confirm")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for --confirm")
	cmd.MarkFlagsMutuallyExclusive("confirm", "yes")
	cmd.ValidArgsFunction = conn.CompleteFilter
	return cmd
}
