package bitmap

import "github.com/spf13/cobra"

func newInit() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   "init [NAME...]",
		Short: "Create the filters of the settings that store or archive lacks",
		Long: `For each filter of the settings: where neither store nor archive has a bit-map, make
it in the store; where the archive alone has one, restore it; and where the archive has
none, write the first version. Filters of other kinds are made in the store. What is
there is not changed, so that a second run says "unchanged".`,
		Example: "  urifilter bitmap init --config /etc/urifilter/urifilter.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, &flags, args, func(w *work) error { return w.init(args) })
		},
	}
	flags.register(cmd, true)
	flags.registerWait(cmd)
	return cmd
}
