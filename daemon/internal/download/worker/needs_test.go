package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestWithoutTheEngine: tasks for an engine that the worker lacks wait without an attempt, beside
// others that are done; they are done when a worker with that engine comes.
func TestWithoutTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		plain := w.job("plain", download.Setting{Dispatch: 500, MaxAttempts: 3})
		special, err := w.store.AddJob(t.Context(), download.Job{Name: "special", On: true,
			Setting: download.Setting{Dispatch: 500, MaxAttempts: 3, Engine: "other", Timeout: time.Minute, Lane: download.Normal}})
		if err != nil {
			t.Fatal(err)
		}
		w.add(plain, uris("ok", 5, 5)...)
		w.add(special, uris("ok", 5, 5)...)
		_, stop := w.start(Options{Owner: "w1", Has: []string{"test"}})
		w.ends(plain, 5)
		time.Sleep(5 * time.Minute)
		holders, err := w.store.Holders(t.Context(), download.HasPrefix)
		if err != nil || len(holders) != 3 || holders[download.HasName(download.NeedLane(download.Normal), "w1")] != "w1" || holders[download.HasName("test", "w1")] != "w1" {
			t.Errorf("it has %v, %v", holders, err)
		}
		for uri, task := range w.tasks(special) {
			if task.Attempts != 0 || task.Fence != 0 || task.State != download.Ready && task.State != download.Waiting {
				t.Errorf("%s is %s after %d attempts", uri, task.State, task.Attempts)
			}
		}
		stop()
		if holders, err = w.store.Holders(t.Context(), ""); err != nil || holders[download.HasName("test", "w1")] != "" {
			t.Errorf("after its end there are %v, %v", holders, err)
		}
		w.start(Options{Owner: "w2", Has: []string{"test", "other"}, Engines: map[string]Engine{"test": w, "other": w}})
		w.ends(special, 5)
		w.consistent(special)
	})
}
