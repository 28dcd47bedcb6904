package connection

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// Expire is a flag's value: a time in seconds, or with a unit as in the settings,
// where d is days.
type Expire time.Duration

// Register adds --expire to a command.
func (e *Expire) Register(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(e, "expire", usage)
}

// String, Type and Set implement pflag.Value.
func (e *Expire) String() string {
	if *e == 0 {
		return ""
	}
	return human.Duration(time.Duration(*e))
}

func (e *Expire) Type() string { return "time" }

func (e *Expire) Set(text string) error {
	d, err := parseExpire(text)
	if err != nil || d <= 0 || d > configs.MaxExpire {
		return errors.New("want a time above 0 and at most ten years: seconds such as 90 or 0.5, or with a unit 500ms, 15m, 36h, 30d")
	}
	*e = Expire(d)
	return nil
}

func parseExpire(text string) (time.Duration, error) {
	unit := time.Second
	number := text
	if days, ok := strings.CutSuffix(text, "d"); ok {
		number, unit = days, 24*time.Hour
	}
	if n, err := strconv.ParseFloat(number, 64); err == nil && math.Abs(n) < 1e9 {
		return time.Duration(math.Round(n * float64(unit))), nil
	}
	return time.ParseDuration(text)
}

// Options returns the options of a call to the daemon.
func (e *Expire) Options() []client.CallOption {
	if *e == 0 {
		return nil
	}
	return []client.CallOption{client.Expire(time.Duration(*e))}
}
