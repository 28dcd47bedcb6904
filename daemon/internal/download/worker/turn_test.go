package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// giving is an engine that gives up its turn before it comes, and then asks for another one.
type giving struct {
	*world
	took chan time.Duration
}

func (g *giving) Download(ctx context.Context, work Work) (Page, error) {
	for range 5 {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		err := work.Turn(soon, work.Task.URI)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return Page{}, errors.Join(errors.New("the turn came too early"), err)
		}
	}
	began := time.Now()
	if err := work.Turn(ctx, work.Task.URI); err != nil {
		return Page{}, err
	}
	g.took <- time.Since(began)
	return g.world.Download(ctx, work)
}

// A turn that is given up is free: nobody waits for it. And a turn that is longer away than an attempt may take
// comes all the same, because waiting for it is no part of the attempt.
func TestTurnThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{time.Minute, 2 * longest} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			g := &giving{world: w, took: make(chan time.Duration, 1)}
			j := w.job("a", download.Setting{Dispatch: 10, MaxAttempts: 1, Concurrency: 1, Delay: delay})
			w.add(j, "http://h.example/ok/1")
			w.start(Options{Owner: "w", Concurrency: 1, Engines: map[string]Engine{"test": g}})
			if got, want := <-g.took, delay-5*time.Second; got < want-time.Second || got > want {
				t.Errorf("delay %s: waited for %s, want %s", delay, got, want)
			}
			w.ends(j, 1)
			if n := w.counts(j)[download.Done]; n != 1 {
				t.Errorf("delay %s: %d done", delay, n)
			}
		})
	}
}

// Who has a later turn keeps it when an earlier one is given up.
func TestLaterTurnsStay(t *testing.T) {
	t.Parallel()
	q, now := newQueue(), time.Unix(1_800_000_000, 0)
	first := q.reserve("h", time.Minute, false, now)
	second := q.reserve("h", time.Minute, false, now)
	third := q.reserve("h", time.Minute, false, now)
	q.giveUp(second)
	if got := q.reserve("h", time.Minute, false, now); got.at != third.at.Add(time.Minute) {
		t.Errorf("a turn at %s, where that before is at %s", got.at, third.at)
	} else {
		q.giveUp(got)
	}
	q.giveUp(third)
	if got := q.reserve("h", time.Minute, false, now); got.at != third.at {
		t.Errorf("the last turn is given up, and the next is at %s, want %s (the first was at %s)", got.at, third.at, first.at)
	}
}
