// Package pace decides whether a client sends fast enough to be waited for. It reads neither clock
// nor data: the caller passes times and byte counts.
package pace

import "time"

const (
	// MinBytesPerSecond is the required speed.
	MinBytesPerSecond = 1 << 10

	steps = 8 // of a window
)

// Pace checks whether MinBytesPerSecond have come during the last window. Earlier bytes do not
// count, because a client that stops near the end would still hold the whole body in memory.
type Pace struct {
	window time.Duration
	start  time.Time
	marks  [steps + 1]mark // a ring, each a step or more after the one before: the oldest is a window ago
	next   int             // of marks, the oldest
}

type mark struct {
	at    time.Duration // since start
	bytes int64         // received by then
}

// Begin starts a window of this length at now.
func (p *Pace) Begin(window time.Duration, now time.Time) { *p = Pace{window: window, start: now} }

// Keeps reports whether the bytes received by now are enough.
func (p *Pace) Keeps(now time.Time, bytes int64) bool {
	at := now.Sub(p.start)
	if at < p.window {
		p.note(at, bytes)
		return true
	}
	var from mark // the latest mark at least a window ago
	for _, m := range p.marks {
		if at-m.at >= p.window && m.at > from.at {
			from = m
		}
	}
	p.note(at, bytes)
	return bytes-from.bytes >= int64((at-from.at).Seconds()*MinBytesPerSecond)
}

func (p *Pace) note(at time.Duration, bytes int64) {
	last := &p.marks[(p.next+steps)%len(p.marks)]
	if at-last.at < p.window/steps {
		return
	}
	p.marks[p.next] = mark{at, bytes}
	p.next = (p.next + 1) % len(p.marks)
}
