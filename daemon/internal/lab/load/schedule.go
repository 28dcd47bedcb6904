package load

import (
	"context"
	"sync"
	"time"
)

// schedule says when batches are due. In an open loop that depends on the rate alone, and in a
// closed one on the answers, so that each is due as soon as it can be sent.
type schedule struct {
	start time.Time
	end   time.Time
	every float64 // nanoseconds between two batches; 0: closed loop

	mu       sync.Mutex // guards the following
	next     int64
	returned []time.Time // that were taken and not sent
}

func (s *schedule) open() bool { return s.every > 0 }

func (s *schedule) at(n int64) time.Time {
	return s.start.Add(time.Duration(float64(n) * s.every))
}

// nextDue returns the time at which the next batch is due; false: there are no more.
func (s *schedule) nextDue() (due time.Time, ok bool) {
	if !s.open() {
		now := time.Now()
		return now, now.Before(s.end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due = s.at(s.next)
	if !due.Before(s.end) {
		return due, false
	}
	s.next++
	return due, true
}

// giveBack returns a batch that was taken and was not sent in time.
func (s *schedule) giveBack(due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, due)
}

// unsent passes to with the time of each batch that was due before the end and not sent. The
// end may have come early.
func (s *schedule) unsent(end time.Time, with func(due time.Time)) {
	if !s.open() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, due := range s.returned {
		if due.Before(end) {
			with(due)
		}
	}
	for n := s.next; s.at(n).Before(end); n++ {
		with(s.at(n))
	}
}

// sleepUntil waits with the runtime's timers, which may be late by a millisecond.
func sleepUntil(ctx context.Context, until time.Time) {
	d := time.Until(until)
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
