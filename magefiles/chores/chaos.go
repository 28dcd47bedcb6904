package chores

import (
	"context"
	"time"
)

// Campaign is what a run of the history checker is told; zero fields take its defaults.
type Campaign struct {
	Duration      time.Duration
	Seed          string
	Store, Faults string
}

// Chaos disturbs daemons for a while and holds every answer against the one rule.
func (r Repo) Chaos(ctx context.Context, c Campaign) error {
	if c.Duration == 0 {
		c.Duration = 10 * time.Minute
	}
	args := []string{"test", "./daemon/internal/chaos", "-count=1", "-timeout=0", "-v", "-run=^TestCampaign$", "-args", "-chaos.duration=" + c.Duration.String()}
	for flag, value := range map[string]string{"seed": c.Seed, "store": c.Store, "faults": c.Faults} {
		if value != "" {
			args = append(args, "-chaos."+flag+"="+value)
		}
	}
	return r.run(ctx, nil, "go", args...)
}
