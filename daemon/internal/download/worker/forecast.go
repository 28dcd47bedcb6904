package worker

import (
	"cmp"
	"slices"
	"time"
)

// forecast calls each with the waiting tasks of a pace, in their order, and when each might begin. It returns
// when one more might, of a host that is not held itself until its free.
func (q *queue) forecast(p *pace, now time.Time, each func(t *task, at time.Time)) time.Time {
	// Where no more may run at once, those that run may take longer than the last one did.
	full := func(limit int) (bool, time.Duration) {
		if p.running > 0 && p.running >= limit {
			return true, max(p.took, now.Sub(p.last))
		}
		return false, p.took
	}
	for _, h := range p.hosts {
		h.free = time.Time{}
	}
	waiting := p.waiting()
	if len(waiting) == 0 {
		if full, took := full(p.limit); full {
			return now.Add(took / time.Duration(p.limit))
		}
		return p.last.Add(p.delay)
	}
	var last time.Time // when one begins that is not held itself
	step := time.Duration(0)
	for _, t := range waiting {
		own := q.hosts[t.host]
		full, took := full(min(p.limit, t.concurrency()))
		step = max(t.delay(), took/time.Duration(t.concurrency()))
		at := last.Add(step)
		if last.IsZero() {
			at = now
			if full {
				at = now.Add(step)
			}
			at = later(at, p.last.Add(max(p.delay, t.delay())))
		}
		free := later(own.free, own.held(t.obeys()))
		own.free = later(at, free).Add(own.gap(t.obeys()))
		if free.After(at) { // others begin before it
			at, own.free = free, later(own.free, free.Add(step))
		} else {
			last = at
		}
		each(t, at)
	}
	return later(last, now).Add(step)
}

// enough returns the queues of the hosts with tasks here of which one more task could not begin before a time.
func (q *queue) enough(now, than time.Time) []int {
	var all []int
	next := map[*pace]time.Time{}
	for _, h := range q.hosts {
		if h.shard < 0 || len(h.waiting) == 0 && h.running == 0 {
			continue
		}
		at, known := next[h.pace]
		if !known {
			at = q.forecast(h.pace, now, func(*task, time.Time) {})
			next[h.pace] = at
		}
		if later(at, h.free).After(than) {
			all = append(all, h.queue)
		}
	}
	return all
}

// waiting returns the waiting tasks of all hosts of a pace, in their order.
func (p *pace) waiting() []*task {
	if len(p.hosts) == 1 {
		return p.hosts[0].waiting
	}
	var all []*task
	for _, h := range p.hosts {
		all = append(all, h.waiting...)
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.order, b.order) })
	return all
}

// late is a task that will not begin for a long time.
type late struct {
	task *task
	at   time.Time // when it might
}

// late returns the tasks that cannot begin before a time.
func (q *queue) late(now, than time.Time) []late {
	var all []late
	for _, h := range q.hosts {
		if h != h.pace.hosts[0] {
			continue // it comes with that host
		}
		q.forecast(h.pace, now, func(t *task, at time.Time) {
			if at.After(than) {
				all = append(all, late{t, at})
			}
		})
	}
	return all
}
