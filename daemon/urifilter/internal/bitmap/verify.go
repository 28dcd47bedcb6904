package bitmap

import "github.com/spf13/cobra"

func newVerify() *cobra.Command {
	var flags commonFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Check the archive's newest versions, byte for byte",
		Long: `Read the newest version of each filter from the archive, or with --all each version, and
check it against its checksums. Nothing is changed. It exits with 1 when there is damage.`,
		Example: "  urifilter bitmap verify --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd, &flags, func(s *shelf) error { return s.verify(args, all) })
		},
	}
	flags.register(cmd, false)
	cmd.Flags().BoolVar(&all, "all", false, "check every version, not the newest alone")
	return cmd
}
