package timing

import (
	"sync/atomic"
	"time"
)

// Timeline is a time of its own: milliseconds that begin with those of the machine's clock and
// then go on by Clock.Elapsed, and go on after a restart from what was written down.
type Timeline struct {
	clock Clock
	first int64         // the time when it began
	zero  time.Duration // Clock.Elapsed then
	ahead atomic.Int64  // milliseconds that Advance has added
}

// Begin is a Timeline that begins now.
func Begin(clock Clock) *Timeline {
	elapsed, wall := clock.both()
	return &Timeline{clock: clock, first: wall.UnixMilli(), zero: elapsed}
}

// GoOn is a Timeline that goes on from r, which another has written down: by
// as much as has passed by the machine's clock. Where that was set back, no time has
// passed: time never runs backwards, so deadlines keep their order. From the zero Reading
// it is as one that begins now.
func GoOn(clock Clock, r Reading) *Timeline {
	elapsed, wall := clock.both()
	return &Timeline{clock: clock, first: r.after(wall), zero: elapsed}
}

func (t *Timeline) at(elapsed time.Duration) int64 {
	return t.first + max(0, (elapsed-t.zero).Milliseconds()+t.ahead.Load())
}

// Now is the time.
func (t *Timeline) Now() int64 { return t.at(t.clock.Elapsed()) }

// Read is what the timeline and the machine's clock show now.
func (t *Timeline) Read() Reading {
	elapsed, wall := t.clock.both()
	return Reading{Table: t.at(elapsed), Wall: wall.UnixMilli()}
}

// Advance makes the time at least now. It is for one who finds, as he reads what was
// written down, that time was further already. It must not be called while others ask.
func (t *Timeline) Advance(now int64) {
	if behind := now - t.Now(); behind > 0 {
		t.ahead.Add(behind)
	}
}

// clockStep is how far the machine's clock may depart from a time before that is written
// down again, so that a restart finds out what time has passed by the machine's clock as it is
// now.
const clockStep = time.Second

// Lag is how far the machine's clock was ahead of a time when that was written down.
type Lag struct{ ms atomic.Int64 }

// Note is for what is written down.
func (l *Lag) Note(r Reading) { l.ms.Store(r.Wall - r.Table) }

// Departed tells that the clock was set since, or runs too fast or slow: r is to be written down.
func (l *Lag) Departed(r Reading) bool {
	step := r.Wall - r.Table - l.ms.Load()
	return max(step, -step) > clockStep.Milliseconds()
}
