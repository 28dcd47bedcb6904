package bitmap

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func newRestore() *cobra.Command {
	var flags commonFlags
	var version string
	cmd := &cobra.Command{
		Use:   "restore [NAME...]",
		Short: "Put archived bit-maps back into the store",
		Long: `Set in the store all bits of an archived version, the newest one if --version names no
other. What the store remembers already stays. A filter that the store lacks is made.
A version that is damaged is refused; an older one may be whole.`,
		Example: `  urifilter bitmap restore uri
  urifilter bitmap restore --version uri-12 uri`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != "" && len(args) != 1 {
				return command.UsageError{Err: fmt.Errorf("--version %s: want one NAME with it, not %d", version, len(args))}
			}
			return withStore(cmd, &flags, args, func(w *work) error { return w.restore(args, version) })
		},
	}
	flags.register(cmd, true)
	cmd.Flags().StringVar(&version, "version", "", "`id` of the version, as `urifilter bitmap list` shows it")
	return cmd
}
