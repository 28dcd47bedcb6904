//go:build unix

package chaos

import (
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/chaos/wallclock"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// recordedWithin is how long a daemon may take to record that its clock was set, on a busy
// machine: it looks once a second.
const recordedWithin = 5 * time.Second

// startsWithin is how long a daemon may take to start, on a busy machine: it reads the clock while it
// does, and not again.
const startsWithin = 10 * time.Second

// setClock sets by how much the wall clock of a daemon is off, which is step more than before.
func (d *daemon) setClock(off, step time.Duration) error {
	d.mu.Lock()
	s := history.Step{At: d.since(), By: max(step, -step)}
	d.stepped = append(d.stepped, s)
	if s.At < d.began+startsWithin {
		d.steps = append(d.steps, s)
	}
	d.mu.Unlock()
	return wallclock.Set(d.clock, off)
}

// countSteps notes the steps of the clock that a restart may count as time that has passed: those
// that the daemon may not have recorded before it ended at from. A step back counts, too: it
// undoes what a step forward hid.
func (d *daemon) countSteps(from time.Duration) {
	d.stepped = slices.DeleteFunc(d.stepped, func(s history.Step) bool { return s.At < from-recordedWithin })
	for _, s := range d.stepped {
		d.steps = append(d.steps, history.Step{At: d.since(), By: s.By})
	}
}
