// Package pace tells whether what a client sends comes fast enough to be waited for. It reads no
// clock and nothing that is sent: both are told to it.
package pace

import "time"

const (
	// MinBytesPerSecond is the speed that must be kept.
	MinBytesPerSecond = 1 << 10

	steps = 8 // of a window
)

// Pace tells whether MinBytesPerSecond have come during the last window: what came before
// does not count, for a client that stops near the end holds all of it.
type Pace struct {
	window time.Duration
	start  time.Time
	marks  [steps + 1]mark // a ring, each a step or more after the one before: the oldest is a window ago
	next   int             // of marks, the oldest
}

type mark struct {
	at    time.Duration // since start
	bytes int64         // that had come
}

// Begin starts a window of that length at now.
func (p *Pace) Begin(window time.Duration, now time.Time) { *p = Pace{window: window, start: now} }

// Keeps is told how many bytes have come by now, and tells whether that is enough.
func (p *Pace) Keeps(now time.Time, bytes int64) bool {
	at := now.Sub(p.start)
	if at < p.window {
		p.note(at, bytes)
		return true
	}
	var from mark // the latest that is a window ago
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
