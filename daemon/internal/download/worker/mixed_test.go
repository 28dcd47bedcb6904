package worker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// special adds a job that needs the engine "other".
func (w *world) special(name string, s download.Setting) download.Job {
	w.t.Helper()
	s.Engine, s.Timeout, s.Lane = "other", time.Minute, download.Normal
	j, err := w.store.AddJob(w.t.Context(), download.Job{Name: name, On: true, Setting: s})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// able are the options of a worker that has both engines, lame those of a worker that lacks "other".
func (w *world) able(owner string) Options {
	return Options{Owner: owner, Has: []string{"test", "other"}, Engines: map[string]Engine{"test": w, "other": w}}
}

func (w *world) lame(owner string) Options { return Options{Owner: owner, Has: []string{"test"}} }

// TestShardsOfAWorkerWithoutTheEngine: a worker that lacks an engine gives shards with tasks for it to one
// that has it. No host is ever called by both at once, although other tasks of these hosts continue.
func TestShardsOfAWorkerWithoutTheEngine(t *testing.T) {
	t.Parallel()
	for _, lame := range []int{1, 3} {
		t.Run(fmt.Sprint(lame, " without"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: time.Second, Concurrency: 1}
				plain, special := w.job("plain", s), w.special("special", s)
				for i := range lame {
					w.start(w.lame(fmt.Sprint("lame", i)))
				}
				w.start(w.able("able"))
				time.Sleep(2 * time.Minute) // they have their parts
				w.add(plain, uris("ok", 360, 120)...)
				w.add(special, uris("404", 240, 120)...)
				began := time.Now()
				w.ends(special, 240)
				if took := time.Since(began); took > 20*time.Minute {
					t.Errorf("it took %v", took)
				}
				w.ends(plain, 360)
				w.consistent(plain)
				w.consistent(special)
				w.polite(time.Second, 1)
			})
		})
	}
}

// TestShardsOfAWorkerWithoutTheLane: two workers, each serving what the other does not, exchange their shards.
func TestShardsOfAWorkerWithoutTheLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: time.Second, Concurrency: 1}
		normal := w.job("normal", s)
		s.Lane = download.Foreign
		foreign := w.job("foreign", s)
		w.start(Options{Owner: "w1", Has: []string{"test"}})
		w.start(Options{Owner: "w2", Has: []string{"test"}, Lanes: []download.Lane{download.Foreign}})
		w.start(Options{Owner: "w3", Has: []string{"test"}, Lanes: []download.Lane{download.Urgency}})
		time.Sleep(2 * time.Minute)
		w.add(normal, uris("ok", 300, 150)...)
		w.add(foreign, uris("404", 300, 150)...)
		w.ends(normal, 300)
		w.ends(foreign, 300)
		w.consistent(normal)
		w.consistent(foreign)
		w.polite(time.Second, 1)
	})
}

// TestWhoAskedForShardsIsDead: shards that were asked for and given up are not lost when the asker dies.
func TestWhoAskedForShardsIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: time.Second, Concurrency: 1}
		plain, special := w.job("plain", s), w.special("special", s)
		w.start(w.lame("lame"))
		dying := w.able("dying")
		cut := &severed{Store: w.store}
		dying.Store = cut
		_, stop := w.start(dying)
		time.Sleep(2 * time.Minute)
		w.add(plain, uris("ok", 600, 60)...)
		w.add(special, uris("404", 60, 60)...)
		w.until("shards are asked for", func() bool {
			wanted, err := w.store.Holders(t.Context(), download.WantedPrefix)
			if err != nil {
				t.Fatal(err)
			}
			return len(wanted) > 0
		})
		cut.cut.Store(true)
		w.ends(plain, 600)
		w.until("one worker has all", func() bool {
			held, err := w.store.Holders(t.Context(), download.ShardPrefix)
			if err != nil {
				t.Fatal(err)
			}
			return len(held) == download.Shards
		})
		stop()
		w.start(w.able("able"))
		w.ends(special, 60)
		w.polite(time.Second, 1)
	})
}
