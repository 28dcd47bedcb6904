package filter

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// flags are the flags of a command that asks one filter of a daemon about items.
type flags struct {
	connection.Flags
	typ string
}

// register adds them to a command.
func (f *flags) register(cmd *cobra.Command) {
	f.Register(cmd)
	cmd.Flags().StringVarP(&f.typ, "type", "t", defaultFilter, "name or id of the `filter` (env URIFILTER_TYPE)")
	if err := cmd.RegisterFlagCompletionFunc("type", f.CompleteFilter); err != nil {
		panic(err) // the flag is defined above
	}
}

// filter returns the name of the filter to ask.
func (f *flags) filter(cmd *cobra.Command) string {
	return connection.FlagOrEnv(cmd, "type", f.typ, "URIFILTER_TYPE")
}

// withInput passes do the daemon, and the lines of the file that args may name, else of the standard input.
func (f *flags) withInput(cmd *cobra.Command, args []string, do func(*client.Client, *input) error) error {
	name := "-"
	if len(args) > 0 {
		name = args[0]
	}
	daemon, err := f.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	source, _, err := openInput(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer source.Close()
	in := newInput(&unpacked{source: source})
	defer in.close()
	return do(daemon, in)
}
