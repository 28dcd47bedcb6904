package timing

import (
	"sync/atomic"
	"time"
)

// Timeline is a time of its own: milliseconds that begin at the machine's clock and then
// advance by Clock.Elapsed. After a restart they go on from what was written down.
type Timeline struct {
	clock Clock
	first int64         // the time when it began
	zero  time.Duration // Clock.Elapsed then
	ahead atomic.Int64  // milliseconds that Advance has added
}

// GoOn returns a Timeline that goes on from r, which another has written down, or begins now if r
// is zero. It advances by as much as has passed by the machine's clock. If that clock was set back,
// no time has passed: time never runs backwards, so deadlines keep their order.
func GoOn(clock Clock, r Reading) *Timeline {
	elapsed, wall := clock.both()
	return &Timeline{clock: clock, first: r.after(wall), zero: elapsed}
}

func (t *Timeline) at(elapsed time.Duration) int64 {
	return t.first + max(0, (elapsed-t.zero).Milliseconds()+t.ahead.Load())
}

// Now returns the time.
func (t *Timeline) Now() int64 { return t.at(t.clock.Elapsed()) }

// Read returns what the timeline and the machine's clock show now.
func (t *Timeline) Read() Reading {
	elapsed, wall := t.clock.both()
	return Reading{Table: t.at(elapsed), Wall: wall.UnixMilli()}
}

// Advance makes the time at least now. It is for a caller that reads what was written down and
// finds that the time was further already. It must not be called while others read the time.
func (t *Timeline) Advance(now int64) {
	if behind := now - t.Now(); behind > 0 {
		t.ahead.Add(behind)
	}
}

// clockStep is how far the machine's clock may depart from a time before that time is written
// down again, so that a restart finds out what time has passed by the machine's clock as it is
// now.
const clockStep = time.Second

// Lag is how far the machine's clock was ahead of a time when that time was written down.
type Lag struct{ ms atomic.Int64 }

// Note records a reading that is written down.
func (l *Lag) Note(r Reading) { l.ms.Store(r.Wall - r.Table) }

// Departed reports whether the clock was set since then, or runs too fast or too slow: then r
// must be written down.
func (l *Lag) Departed(r Reading) bool {
	step := r.Wall - r.Table - l.ms.Load()
	return max(step, -step) > clockStep.Milliseconds()
}
