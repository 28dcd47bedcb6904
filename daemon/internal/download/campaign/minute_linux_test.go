package campaign

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	tasks = flag.Int("campaign.tasks", 0, "tasks of TestCampaign; 0: it is left out")
	hosts = flag.Int("campaign.hosts", 500, "hosts of TestCampaign")
	seed  = flag.Uint64("campaign.seed", 0, "seed; 0: chosen by the clock, or that of the test")
)

// TestCampaign is what go tool mage chaosDownloads runs.
func TestCampaign(t *testing.T) {
	if *tasks == 0 {
		return // without the flag there is nothing to try; TestSystemMinute runs always
	}
	o := Options{Roles: []string{"serve"}, Tasks: *tasks, Hosts: *hosts, Delay: 3 * time.Second, Pause: 12 * time.Second, Seed: *seed, Out: os.Stdout, Patience: 10 * time.Minute}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	Run(t, o)
}

// A campaign of about a minute, of one process with all roles.
func TestSystemMinute(t *testing.T) {
	o := Options{Roles: []string{"serve"}, Tasks: 3000, Hosts: 300, Delay: 3 * time.Second, Pause: 7 * time.Second, Seed: 7, Out: os.Stdout, Patience: 5 * time.Minute}
	if *seed != 0 {
		o.Seed = *seed
	}
	Run(t, o)
}
