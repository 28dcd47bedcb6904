// Package filters holds the commands that list, show, create, merge, clear and drop the filters
// of a daemon.
package filters

import (
	"fmt"
	"slices"
	"strconv"

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
		Short: "List, show, create, merge, clear and drop filters",
		Long:  "List, show, create, merge, clear and drop the filters of a daemon.",
		Example: `  urifilter filters list
  urifilter filters create pages --capacity 150M --error-rate 0.0001
  urifilter filters create news --kind timing --expire 1h`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newList(), newShow(), newCreate(), newMerge(), newClear(), newDrop())
	return cmd
}

// forgetting is a command that forgets the items of a filter whose name is confirmed.
func forgetting(use, verb string, do func(cmd *cobra.Command, daemon *client.Client, name string) error) *cobra.Command {
	var conn connection.Flags
	var confirm string
	var yes bool
	cmd := conn.Calling(&cobra.Command{
		Use:  use,
		Args: cobra.ExactArgs(1),
		PreRunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case confirm != "" && confirm != name:
				return command.UsageError{Err: fmt.Errorf("%s %s: --confirm names another filter, %q", verb, name, confirm)}
			case confirm == "" && !yes:
				return command.UsageError{Err: fmt.Errorf("%s %s: all its items would be forgotten%sadd --confirm %s if that is meant", verb, name, command.HintMark, name)}
			}
			return nil
		},
	}, func(cmd *cobra.Command, daemon *client.Client, args []string) error {
		return do(cmd, daemon, args[0])
	})
	cmd.Flags().StringVar(&confirm, "confirm", "", "repeat the `name` of the filter to confirm")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for --confirm")
	cmd.MarkFlagsMutuallyExclusive("confirm", "yes")
	cmd.ValidArgsFunction = conn.CompleteFilter
	return cmd
}

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
of those of the kind simhash the documents. Filters in quarantine, whose data are
damaged, are named on standard error, and in the JSON.`,
		Example: `  urifilter filters list
  urifilter filters list --json | jq -r '.filters[].name'`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
		list, err := daemon.AllFilters(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), list)
		}
		for _, q := range list.Quarantined {
			fmt.Fprintf(cmd.ErrOrStderr(), "filter %s is in quarantine, and not served: %s\n", q.Name, q.Reason)
		}
		return writeTable(cmd.OutOrStdout(), list.Filters)
	})
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

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
