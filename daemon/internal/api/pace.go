package api

import "time"

const (
	// minBytesPerSecond is the speed that a JSON body must keep, and an answer.
	minBytesPerSecond = 1 << 10
	paceSteps         = 8 // of a window
)

// pace tells whether minBytesPerSecond have come during the last window: what came before
// does not count, for a client that stops near the end holds all of it.
type pace struct {
	window time.Duration
	start  time.Time
	marks  [paceSteps + 1]paceMark // a ring, each a step or more after the one before: the oldest is a window ago
	next   int                     // of marks, the oldest
}

type paceMark struct {
	at    time.Duration // since start
	bytes int64         // that had come
}

func (p *pace) begin(window time.Duration, now time.Time) { *p = pace{window: window, start: now} }

// keeps is told how many bytes have come by now.
func (p *pace) keeps(now time.Time, bytes int64) bool {
	at := now.Sub(p.start)
	if at < p.window {
		p.mark(at, bytes)
		return true
	}
	var from paceMark // the latest that is a window ago
	for _, m := range p.marks {
		if at-m.at >= p.window && m.at > from.at {
			from = m
		}
	}
	p.mark(at, bytes)
	return bytes-from.bytes >= int64((at-from.at).Seconds()*minBytesPerSecond)
}

func (p *pace) mark(at time.Duration, bytes int64) {
	last := &p.marks[(p.next+paceSteps)%len(p.marks)]
	if at-last.at < p.window/paceSteps {
		return
	}
	p.marks[p.next] = paceMark{at, bytes}
	p.next = (p.next + 1) % len(p.marks)
}
