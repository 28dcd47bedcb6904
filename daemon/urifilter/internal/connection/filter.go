package connection

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RegisterFilter adds --filter to a command, and its old name --type. usage says what filters it may name.
func (c *Flags) RegisterFilter(cmd *cobra.Command, name *string, usual, usage string) {
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "type" {
			name = "filter"
		}
		return pflag.NormalizedName(name)
	})
	f.StringVarP(name, "filter", "t", usual, usage+" (env URIFILTER_FILTER)")
	if err := cmd.RegisterFlagCompletionFunc("filter", c.CompleteFilter); err != nil {
		panic(err) // the flag is defined above
	}
}

// Filter returns the filter that a command is to ask: that of the flag, else of the environment, whose old name
// is URIFILTER_TYPE, else the usual one.
func Filter(cmd *cobra.Command, name string) string {
	if os.Getenv("URIFILTER_FILTER") != "" {
		return FlagOrEnv(cmd, "filter", name, "URIFILTER_FILTER")
	}
	return FlagOrEnv(cmd, "filter", name, "URIFILTER_TYPE")
}
