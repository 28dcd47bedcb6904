package bitmap

import "github.com/spf13/cobra"

func newList() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:     "list [NAME...]",
		Short:   "List the versions in the archive, newest first",
		Example: "  urifilter bitmap list uri",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd, &flags, func(s *shelf) error { return s.list(args) })
		},
	}
	flags.register(cmd, false)
	return cmd
}
