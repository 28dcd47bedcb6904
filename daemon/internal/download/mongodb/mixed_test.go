package mongodb

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// sites is an engine that notices when a host is called twice at once.
type sites struct {
	t       *testing.T
	mu      sync.Mutex
	running map[string]int
}

type text struct{ *strings.Reader }

func (text) Close() error { return nil }

// Download implements worker.Engine.
func (s *sites) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	host := download.HostOf(w.Task.URI)
	add := func(n int) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[host] += n
		return s.running[host]
	}
	if add(1) > 1 {
		s.t.Errorf("%s is called twice at once", host)
	}
	defer add(-1)
	select { // long enough to overlap with another
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return worker.Page{}, ctx.Err()
	}
	return worker.Page{Result: download.Result{URI: w.Task.URI, Status: 200}, Body: text{strings.NewReader("x")}}, nil
}

// TestWorkersOfWhichOneLacksTheEngine: of two processes with separate connections, the one without
// the engine gives its shards with tasks for it to the other, and all tasks are done.
func TestWorkersOfWhichOneLacksTheEngine(t *testing.T) {
	t.Parallel()
	o := Options{URI: start(t).URI(), Database: newDatabase()}
	hub := open(t, o)
	const n = 60
	setting := download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: time.Millisecond, Concurrency: 1, Timeout: time.Minute, Lane: download.Normal}
	var jobs []download.Job
	for _, engine := range []string{"plain", "special"} {
		setting.Engine = engine
		j, err := hub.AddJob(t.Context(), download.Job{Name: engine, On: true, Setting: setting})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	// Shards change hands after a third of the time for which they are held, and are lost at its
	// end. So it is short, but many times longer than a call that holds all of them.
	var all []string
	for i := range download.Shards {
		all = append(all, download.ShardPrefix+strconv.Itoa(i))
	}
	began := time.Now()
	if _, err := hub.Hold(t.Context(), "nobody", all, time.Hour); err != nil {
		t.Fatal(err)
	}
	shardFor := max(10*time.Second, 20*time.Since(began))
	if err := hub.LetGo(t.Context(), "nobody", all); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	shop := &sites{t: t, running: map[string]int{}}
	stores := []*Store{hub}
	for _, w := range []worker.Options{
		{Owner: "lame", Has: []string{"plain"}, Engines: map[string]worker.Engine{"plain": shop}},
		{Owner: "able", Has: []string{"plain", "special"}, Engines: map[string]worker.Engine{"plain": shop, "special": shop}},
	} {
		store := open(t, o)
		stores = append(stores, store)
		w.Store, w.ShardFor = store, shardFor
		running.Go(func() { worker.New(w).Run(ctx) })
	}
	d := dispatch.New(dispatch.Options{Store: hub, Owner: "dispatcher", Every: time.Second})
	running.Go(func() { d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		for _, store := range stores {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	eventually(t, "both have shards", func() (bool, string) {
		held, err := hub.Holders(t.Context(), download.ShardPrefix)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]int{}
		for _, owner := range held {
			of[owner]++
		}
		return of["lame"] == download.Shards/2 && of["able"] == download.Shards/2, fmt.Sprint(of)
	})
	for _, j := range jobs {
		var tasks []download.NewTask
		for i := range n {
			host := fmt.Sprintf("h%d.example", i%20)
			tasks = append(tasks, download.NewTask{URI: fmt.Sprintf("http://%s/%d", host, i), Shard: download.ShardOf(host)})
		}
		if _, err := hub.AddTasks(t.Context(), j.ID, tasks); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range jobs {
		eventually(t, "all tasks of "+j.Name+" are done", func() (bool, string) {
			counts, err := hub.Counts(t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			return counts[download.Done] == n, fmt.Sprint(counts)
		})
	}
}

// eventually waits until so returns true, as long as the text that so returns keeps changing.
func eventually(t *testing.T, what string, so func() (bool, string)) {
	t.Helper()
	for before, moved := "", time.Now(); ; time.Sleep(500 * time.Millisecond) {
		is, now := so()
		if is {
			return
		}
		if now != before {
			before, moved = now, time.Now()
		}
		if time.Since(moved) > 5*patient {
			t.Fatalf("%s: %s, and nothing of it has changed for %v", what, now, 5*patient)
		}
	}
}
