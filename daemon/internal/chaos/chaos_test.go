//go:build unix

package chaos

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	duration = flag.Duration("chaos.duration", 0, "how long TestCampaign disturbs; 0: it is left out")
	round_   = flag.Duration("chaos.round", 3*time.Minute, "how long a round takes")
	seed     = flag.Uint64("chaos.seed", 0, "seed of the first round; 0: chosen by the clock")
	stores   = flag.String("chaos.store", "embedded,redis,sentinel,cluster", "stores, which take turns")
	only     = flag.String("chaos.faults", "", "faults, with commas between them; -name leaves one out; none: all")
)

// TestCampaign is what go tool mage chaos runs.
func TestCampaign(t *testing.T) {
	if *duration == 0 {
		return // without the flag there is nothing to try; TestMinute runs always
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	Run(t, Options{Duration: *duration, Round: *round_, Seed: *seed, Stores: strings.Split(*stores, ","), Faults: chosen(*only), Out: os.Stdout})
}

// chosen are the faults that a list names.
func chosen(list string) []string {
	var some, without []string
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		if left, ok := strings.CutPrefix(name, "-"); ok {
			without = append(without, left)
		} else {
			some = append(some, name)
		}
	}
	if len(some) == 0 {
		some = Faults()
	}
	return slices.DeleteFunc(some, func(name string) bool { return slices.Contains(without, name) })
}

// TestMinute is a campaign for every change: the store of one machine, and the shared one.
func TestMinute(t *testing.T) {
	o := Options{Seed: 9, Gentle: true, Out: os.Stdout}
	o.Stores, o.Round, o.Duration = []string{"embedded", "redis"}, 20*time.Second, 40*time.Second
	o.Faults = []string{"kill", "term", "stop", "cut", "redis-slow"}
	if testing.Short() { // under the race detector: of the callers, not of the daemons
		o.Stores, o.Duration = []string{"embedded"}, 5*time.Second
	}
	Run(t, o)
}
