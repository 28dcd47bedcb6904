package http

import "time"

const (
	// minBytesPerSecond is the required speed.
	minBytesPerSecond = 1 << 10

	paceSteps = 8 // of a window
)

// pace decides whether a client sends fast enough to be waited for: whether minBytesPerSecond have come
// during the last window. Earlier bytes do not count, because a client that stops near the end would still
// hold the whole body in memory. It reads neither clock nor data.
type pace struct {
	window time.Duration
	start  time.Time
	marks  [paceSteps + 1]paceMark // a ring, each a step or more after the one before: the oldest is a window ago
	next   int                     // of marks, the oldest
}

type paceMark struct {
	at    time.Duration // since start
	bytes int64         // received by then
}

// begin starts a window of this length at now.
func (p *pace) begin(window time.Duration, now time.Time) { *p = pace{window: window, start: now} }

// keeps reports whether the bytes received by now are enough.
func (p *pace) keeps(now time.Time, bytes int64) bool {
	at := now.Sub(p.start)
	if at < p.window {
		p.note(at, bytes)
		return true
	}
	var from paceMark // the latest at least a window ago
	for _, m := range p.marks {
		if at-m.at >= p.window && m.at > from.at {
			from = m
		}
	}
	p.note(at, bytes)
	return bytes-from.bytes >= int64((at-from.at).Seconds()*minBytesPerSecond)
}

func (p *pace) note(at time.Duration, bytes int64) {
	last := &p.marks[(p.next+paceSteps)%len(p.marks)]
	if at-last.at < p.window/paceSteps {
		return
	}
	p.marks[p.next] = paceMark{at, bytes}
	p.next = (p.next + 1) % len(p.marks)
}
