package downloads

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	tasks = flag.Int("campaign.tasks", 0, "tasks of TestCampaign; 0: it is left out")
	hosts = flag.Int("campaign.hosts", 1000, "hosts of TestCampaign")
	pause = flag.Duration("campaign.pause", 12*time.Second, "mean time between two strikes of TestCampaign")
	kind  = flag.String("campaign.kind", "roles", "processes of TestCampaign: serve, roles or mongodb")
	seed  = flag.Uint64("campaign.seed", 0, "seed; 0: chosen by the clock, or that of the test")
	keep  = flag.String("campaign.keep", "", "a folder that keeps data and logs of TestCampaign")
)

// kinds are the sets of processes that a campaign can have.
func kinds() map[string]Options {
	apart := Options{Roles: []string{"master", "dispatch", "worker", "worker"}, Filter: true, Redis: true}
	onMongoDB := apart
	onMongoDB.MongoDB = true
	return map[string]Options{"serve": {Roles: []string{"serve"}}, "roles": apart, "mongodb": onMongoDB}
}

// TestCampaign is what go tool mage chaosDownloads runs.
func TestCampaign(t *testing.T) {
	if *tasks == 0 {
		t.Skip("only with -campaign.tasks; TestSystemMinute runs always")
	}
	o, known := kinds()[*kind]
	if !known {
		t.Fatalf("-campaign.kind=%s: want serve, roles or mongodb", *kind)
	}
	o.Tasks, o.Hosts, o.Delay, o.Pause, o.Seed, o.Keep = *tasks, *hosts, 3*time.Second, *pause, *seed, *keep
	o.Out, o.Patience = os.Stdout, 10*time.Minute
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	Run(t, o)
}

// Campaigns of about a minute: with all roles in one process, and with separate processes.
func TestSystemMinute(t *testing.T) {
	t.Parallel()
	minute(t, "serve", 3000, 300)
}

func TestSystemMinuteRoles(t *testing.T) {
	t.Parallel()
	minute(t, "roles", 2000, 300)
}

// On MongoDB. FerretDB reads all tasks for most commands, so that twice as many take four times as long. Beside other
// work it is slower than leases allow for; workers then lose them, and what they do is repeated. So the tasks are few.
func TestSystemMinuteMongoDB(t *testing.T) { minute(t, "mongodb", 100, 50) }

func minute(t *testing.T, kind string, tasks, hosts int) {
	o := kinds()[kind]
	o.Tasks, o.Hosts, o.Delay, o.Pause, o.Seed = tasks, hosts, 3*time.Second, 7*time.Second, 7
	o.Out, o.Patience = os.Stdout, 5*time.Minute
	if *seed != 0 {
		o.Seed = *seed
	}
	Run(t, o)
}
