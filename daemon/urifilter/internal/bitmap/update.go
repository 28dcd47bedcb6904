package bitmap

import "github.com/spf13/cobra"

func newUpdate() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   "update [NAME...]",
		Short: "Write bit-maps back to the archive now",
		Long: `Write bit-maps back to the archive now. Only what has changed since the last version is
sent; what others wrote meanwhile is kept. However it ends, the last good version stays.

A filter that another daemon is writing back at that moment is waited for, up to --wait;
--yield leaves it to that one: right for daemons that share a store, for they write the
same bit-map.`,
		Example: `  urifilter bitmap update
  urifilter bitmap update --wait 0         # or fail at once
  urifilter bitmap update uri ip --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, &flags, args, func(w *work) error { return w.update(args) })
		},
	}
	flags.register(cmd, true)
	flags.registerWait(cmd)
	cmd.Flags().BoolVar(&flags.yield, "yield", false, "skip filters that another daemon is writing back")
	return cmd
}
