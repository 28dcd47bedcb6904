package filters

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// parameterFlags are the flags for the parameters of new filters of all kinds: the keys of the
// parameters, and pointers to the values.
type parameterFlags map[string]any

func newParameterFlags(cmd *cobra.Command) parameterFlags {
	flags := parameterFlags{}
	for _, p := range configs.Parameters() {
		name := flagOf(p.Key)
		switch p.Type().String() {
		case "uint64":
			v := &human.Quantity{Max: 1 << 53, Want: p.Want}
			cmd.Flags().Var(v, name, p.Usage)
			flags[p.Key] = v
		case "float64":
			flags[p.Key] = cmd.Flags().Float64(name, 0, p.Usage)
		case "time.Duration":
			v := new(connection.Expire)
			cmd.Flags().Var(v, name, p.Usage)
			flags[p.Key] = v
		default:
			flags[p.Key] = cmd.Flags().String(name, "", p.Usage)
		}
		if len(p.Values) > 0 {
			completeFlag(cmd, name, p.Values)
		}
	}
	return flags
}

// flagOf is the name of the flag of a parameter.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

func completeFlag(cmd *cobra.Command, flag string, values []cobra.Completion) {
	completeWith(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeWith(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // the flag is defined
	}
}

// given returns the parameters on the command line, in the form that calls take.
func (p parameterFlags) given(flags *pflag.FlagSet) map[string]any {
	given := map[string]any{}
	for key, v := range p {
		if !flags.Changed(flagOf(key)) {
			continue
		}
		switch v := v.(type) {
		case *human.Quantity:
			given[key] = v.N
		case *connection.Expire:
			given[key] = time.Duration(*v).Seconds()
		case *float64:
			given[key] = *v
		case *string:
			given[key] = *v
		}
	}
	return given
}
