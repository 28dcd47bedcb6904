// Package filters holds the commands that list, show, create, merge, clear and drop the filters
// of a daemon.
package filters

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
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
