package worker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// abroad is a store as seen by a worker whose clock is behind that of the store: all times from the
// store are ahead. Times from the worker are converted to the store's.
type abroad struct {
	Store
	ahead time.Duration
}

func (a abroad) Now(ctx context.Context) (time.Time, error) {
	now, err := a.Store.Now(ctx)
	return now.Add(a.ahead), err
}

func (a abroad) Lease(ctx context.Context, want download.Want) ([]download.Lease, error) {
	leases, err := a.Store.Lease(ctx, want)
	for i := range leases {
		leases[i].Task.Until = leases[i].Task.Until.Add(a.ahead)
	}
	return leases, err
}

func (a abroad) GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error {
	return a.Store.GiveBack(ctx, l, a.heard(notBefore))
}

func (a abroad) Fail(ctx context.Context, l download.Lease, attempt download.Attempt, retry time.Time) error {
	return a.Store.Fail(ctx, l, attempt, a.heard(retry))
}

func (a abroad) heard(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-a.ahead)
}

// TestClocksOfWorkersAreOff: of three workers one has the clock of the store, and the clocks of the others
// are five hours ahead and behind. No lease ends because of that, and retries come at their time.
func TestClocksOfWorkersAreOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: time.Second, Concurrency: 1})
		for i, ahead := range []time.Duration{0, 5 * time.Hour, -5 * time.Hour} {
			w.start(Options{Owner: fmt.Sprint("w", i), Concurrency: 20, Store: abroad{w.store, ahead}})
		}
		w.until("each has its shards", func() bool {
			holders, err := w.store.Holders(t.Context(), "shard/")
			owners := map[string]int{}
			for _, owner := range holders {
				owners[owner]++
			}
			return err == nil && len(owners) == 3 && owners["w0"] > 70 && owners["w1"] > 70 && owners["w2"] > 70
		})
		w.add(j, uris("ok", 300, 30)...)
		w.add(j, uris("fail2", 30, 30)...)
		w.add(j, uris("after", 30, 30)...)
		began := time.Now()
		w.ends(j, 360)
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it took %v: something waited by a clock that is off", took)
		}
		w.consistent(j)
		w.polite(time.Second, 1)
		by := map[string]int{}
		err := w.store.ListLogs(t.Context(), download.Query{Job: j.ID}, func(l download.Log) error { by[l.HostName]++; return nil })
		if err != nil || len(by) != 3 {
			t.Errorf("attempts by %v, %v: want some of each worker", by, err)
		}
		for uri, task := range w.tasks(j) {
			if task.State != download.Done || task.Abandoned != 0 || task.Attempts != w.asked[uri] {
				t.Errorf("%s: %+v, asked for %d times", uri, task, w.asked[uri])
			}
		}
	})
}
