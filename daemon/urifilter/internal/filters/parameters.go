package filters

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/configs"
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
			v := &itemCount{want: p.Want}
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
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
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
		case *itemCount:
			given[key] = v.n
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

// itemCount is a flag's value: a whole number, such as a number of items, with k, M or G for
// thousands, millions, thousand millions.
type itemCount struct {
	n    uint64
	want string // describes valid values in messages
}

func (c *itemCount) String() string { return fmt.Sprint(c.n) }
func (c *itemCount) Type() string   { return "items" }

func (c *itemCount) Set(text string) error {
	factor := 1.0
	if n := len(text); n > 0 {
		if f, ok := map[byte]float64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9}[text[n-1]]; ok {
			factor, text = f, text[:n-1]
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	total := value * factor
	if err != nil || !(total >= 1 && total <= 1<<53) || total != math.Trunc(total) {
		return errors.New("want " + c.want)
	}
	c.n = uint64(total)
	return nil
}
