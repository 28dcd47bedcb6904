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
	seed     = flag.Uint64("chaos.seed", 0, "seed of the first round; 0: chosen by the clock, or that of the test")
	stores   = flag.String("chaos.store", "embedded,redis,sentinel,cluster,mysql", "stores, which take turns")
	beside   = flag.String("chaos.beside", "", "a revision of git, whose program takes turns with this one; none: only this one")
	only     = flag.String("chaos.faults", "", "faults, with commas between them; -name leaves one out; none: all")
)

// TestCampaign is what go tool mage chaos runs.
func TestCampaign(t *testing.T) {
	if *duration == 0 {
		t.Skip("only with -chaos.duration; TestSeconds runs always")
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	Run(t, Options{Duration: *duration, Round: *round_, Seed: *seed, Stores: strings.Split(*stores, ","), Faults: chosen(*only), Beside: *beside, Out: os.Stdout})
}

// chosen returns the faults that a list names.
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

// A campaign of some seconds for every change. The race detector covers the callers, not
// the daemons.
func TestSeconds(t *testing.T) {
	Run(t, gentle(5*time.Second, "embedded"))
}

// A campaign of a minute with the store of one machine and with the shared ones.
func TestSystemMinute(t *testing.T) {
	t.Parallel()
	o := gentle(time.Minute, "redis", "embedded", "redis", "mysql")
	o.Round = 15 * time.Second
	o.Faults = append(o.Faults, "drop", "clear", "redis-kill", "redis-cut", "redis-full", "redis-empty", "mysql-kill", "mysql-stop", "mysql-cut")
	Run(t, o)
}

func gentle(duration time.Duration, stores ...string) Options {
	o := Options{
		Seed: 9, Gentle: true, Out: os.Stdout, Stores: stores, Round: 20 * time.Second, Duration: duration,
		Faults: []string{"kill", "term", "stop", "cut", "redis-slow"},
	}
	if *seed != 0 {
		o.Seed = *seed
	}
	return o
}
