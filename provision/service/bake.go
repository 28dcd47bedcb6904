package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// bakeEvery is how often a daemon that is being watched is checked.
const bakeEvery = time.Second

// Bake is the step that watches a daemon that Prove has found healthy until it has run for
// that long, and then checks it once more. It does not wait for a daemon that has run for
// longer already, and ignores one that Prove has not checked.
func (c *Health) Bake(long time.Duration) step.Proof {
	return step.NewProof("service: bake", func(ctx context.Context, h host.Host) error {
		began := time.Now()
		err := c.bake(ctx, h, long)
		if err == nil || ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) {
			return err
		}
		if !c.acted.IsZero() {
			began = c.acted
		}
		return withJournal(ctx, h, c.Program.Program, err, time.Since(began))
	})
}

func (c *Health) bake(ctx context.Context, h host.Host, long time.Duration) error {
	if c.proved.PID == 0 {
		return nil // this run has neither started nor checked a daemon
	}
	for waited := false; ; waited = true {
		s, err := StatusOf(ctx, h, c.Program.Program)
		switch {
		case err != nil:
			return err
		case !s.Running() || s.PID != c.proved.PID:
			return fmt.Errorf("the daemon does not stay up: process %d was healthy and has ended, now %s", c.proved.PID, s)
		case s.Age() >= long && !waited:
			return nil
		case s.Age() >= long:
			return c.prove(ctx, h)
		case !waited:
			step.Say(ctx, "it is watched until it has run for %s", long)
		}
		if err := host.Sleep(ctx, min(bakeEvery, long-s.Age())); err != nil {
			return err
		}
	}
}

// Crashed reports whether the daemon has ended by itself and not come up again: systemd has
// given up on it, or starts it again and again.
func (s Status) Crashed() bool {
	return s.looping() || s.Active == "failed" && s.Result != "success"
}
