package worker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// uris returns n URIs of a kind, on a number of hosts.
func uris(kind string, n, hosts int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("http://h%d.example/%s/%d", i%hosts, kind, i))
	}
	return all
}

// TestTwoWorkers: 1,000 tasks of 40 hosts on two workers, good and bad ones: each has one result or
// a reason, its attempts are counted, and no host is called too often or too many times at once.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 3, Delay: 50 * time.Millisecond, Concurrency: 2})
		for i := range 2 {
			w.start(Options{Owner: fmt.Sprint("w", i), Concurrency: 50})
		}
		w.add(j, uris("ok", 900, 40)...)
		w.add(j, uris("404", 40, 40)...)
		w.add(j, uris("500", 20, 20)...)
		w.add(j, uris("fail2", 20, 20)...)
		w.add(j, uris("panic", 20, 20)...)
		w.ends(j, 1000)
		w.consistent(j)
		w.polite(50*time.Millisecond, 2)
		if got := w.counts(j); got[download.Done] != 920 || got[download.Failed] != 80 {
			t.Errorf("counts: %v", got)
		}
		for uri, task := range w.tasks(j) {
			kind := strings.Split(uri, "/")[3]
			want := map[string]int{"ok": 1, "404": 1, "500": 3, "fail2": 3, "panic": 3}[kind]
			if asked := w.asked[uri]; task.Attempts != want || asked != want && kind != "panic" {
				t.Errorf("%s: %d attempts, asked for %d times, want %d", uri, task.Attempts, asked, want)
			}
			if kind == "panic" && !strings.Contains(task.Reason, "panic: as asked") {
				t.Errorf("%s failed with %q", uri, task.Reason)
			}
		}
	})
}

// TestRetryAfter: it is obeyed, for the task and for the others of its host.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 3, Concurrency: 1})
		w.add(j, "http://h.example/after/1")
		w.start(Options{Owner: "w", RetryFirst: time.Millisecond, RetryMax: time.Second})
		w.until("429", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.asked["http://h.example/after/1"] == 1 })
		began := time.Now()
		w.until("it waits", func() bool { return w.counts(j)[download.Waiting] == 1 })
		if wait := w.tasks(j)["http://h.example/after/1"].NotBefore.Sub(began); wait < 29*time.Second || wait > 31*time.Second {
			t.Errorf("the task waits for %v, want 30 s", wait)
		}
		w.add(j, "http://h.example/ok/2", "http://other.example/ok/3")
		w.ends(j, 1)
		if got := w.tasks(j)["http://other.example/ok/3"].State; got != download.Done || time.Since(began) > 10*time.Second {
			t.Errorf("the task of another host is %s after %v", got, time.Since(began))
		}
		w.ends(j, 3)
		if took := time.Since(began); took < 29*time.Second || took > time.Minute {
			t.Errorf("those of the host took %v, want 30 s and some", took)
		}
		w.consistent(j)
		if got := w.tasks(j)["http://h.example/after/1"]; got.State != download.Done || got.Attempts != 2 {
			t.Errorf("the task: %+v", got)
		}
	})
}

// TestStop: tasks that have not begun are given back, running ones may end, and the rest is
// given back; no attempt of those is counted, and another worker gets the shards at once.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 1, Delay: time.Second, Concurrency: 1})
		w.add(j, append(uris("ok", 200, 20), "http://slow.example/hang/1")...)
		_, stop := w.start(Options{Owner: "w0", Concurrency: 30, Window: 300, Patience: 5 * time.Second})
		w.until("some are done", func() bool { return w.counts(j)[download.Done] >= 40 })
		began := time.Now()
		stop()
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it stopped after %v, want 5 s for what hangs", took)
		}
		for _, task := range w.tasks(j) {
			if task.State == download.Running || task.State == download.Failed || task.Attempts != map[download.State]int{download.Done: 1}[task.State] {
				t.Errorf("%s is %s after %d attempts", task.URI, task.State, task.Attempts)
			}
		}
		holders, err := w.store.Holders(t.Context(), "")
		if delete(holders, "dispatcher"); err != nil || len(holders) != 0 {
			t.Errorf("held after the end: %v, %v", holders, err)
		}
		w.start(Options{Owner: "w1", Concurrency: 30})
		w.ends(j, 200)
		w.polite(time.Second, 1)
	})
}

// TestTakeover: a worker that is cut off from the store stores nothing more, and stops calling
// hosts before another one begins to. The other worker downloads its tasks.
func TestTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 5, Delay: 3 * time.Second, Concurrency: 1})
		w.add(j, uris("ok", 400, 20)...)
		store := &severed{Store: w.store}
		registry := prometheus.NewPedanticRegistry()
		w.start(Options{Owner: "w0", Concurrency: 30, Window: 200, Store: store, Registry: registry, Patience: time.Second})
		w.until("some are done", func() bool { return w.counts(j)[download.Done] >= 60 })
		w.start(Options{Owner: "w1", Concurrency: 30, Window: 200})
		w.until("both work", func() bool {
			holders, err := w.store.Holders(t.Context(), download.ShardPrefix)
			owners := map[string]int{}
			for _, owner := range holders {
				owners[owner]++
			}
			return err == nil && owners["w0"] == 128 && owners["w1"] == 128
		})
		store.cut.Store(true)
		w.ends(j, 400)
		w.consistent(j)
		w.polite(3*time.Second, 1)
		if got := w.counts(j)[download.Done]; got != 400 {
			t.Errorf("%d done, want 400", got)
		}
		if got := metric(t, registry, "held_shards"); got != 0 {
			t.Errorf("the one that was cut off has %v shards", got)
		}
		store.cut.Store(false) // it comes back, and gets its part again
		w.until("both work again", func() bool {
			holders, err := w.store.Holders(t.Context(), download.ShardPrefix)
			n := 0
			for _, owner := range holders {
				if owner == "w0" {
					n++
				}
			}
			return err == nil && n == 128
		})
	})
}

// TestGainedShardWaits: the last holder of a shard may have called its hosts just then, so that the
// first request waits for the delay.
func TestGainedShardWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 5, MaxAttempts: 1, Delay: 20 * time.Second, Concurrency: 1})
		w.add(j, "http://h.example/ok/1")
		began := time.Now()
		w.start(Options{Owner: "w"})
		w.ends(j, 1)
		if waited := w.hosts["h.example"].last.Sub(began); waited < 20*time.Second || waited > 25*time.Second {
			t.Errorf("the first request came after %v, want 20 s", waited)
		}
	})
}

// TestLostLease: tasks of a dropped job, and a task that another worker has, are cut off at the
// next renewal, and nothing is stored.
func TestLostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 5, Concurrency: 1})
		w.add(j, "http://h.example/hang/1", "http://h.example/ok/2")
		registry := prometheus.NewPedanticRegistry()
		w.start(Options{Owner: "w", Registry: registry})
		running := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			if h := w.hosts["h.example"]; h != nil {
				return h.running
			}
			return 0
		}
		w.until("it runs", func() bool { return running() == 1 })
		if err := w.store.DropJob(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.until("it is cut off", func() bool { return running() == 0 })
		if took := time.Since(began); took > time.Minute/2 {
			t.Errorf("cut off after %v", took)
		}
		time.Sleep(time.Second)
		if got := w.asked["http://h.example/ok/2"]; got != 0 {
			t.Errorf("another task of the job was asked for %d times", got)
		}
		again := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 5, Concurrency: 1})
		w.add(again, "http://h.example/ok/2")
		w.ends(again, 1)
		w.consistent(again)
	})
}

// TestSlowHostIsNotInTheWay: the tasks of a host that must be called slowly do not block the
// download of others, though they came first and are more than can be leased.
func TestSlowHostIsNotInTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := w.job("slow", download.Setting{Dispatch: 1000, MaxAttempts: 2, Delay: 20 * time.Second, Concurrency: 1})
		w.add(slow, uris("ok", 30, 1)...)
		w.start(Options{Owner: "w", Concurrency: 10})
		w.until("the first is done", func() bool { return w.counts(slow)[download.Done] >= 1 })
		began := time.Now()
		j := w.job("quick", download.Setting{Dispatch: 1000, MaxAttempts: 2, Concurrency: 2})
		var quick []string
		for i := range 150 {
			quick = append(quick, fmt.Sprintf("http://quick%d.example/ok/%d", i%30, i))
		}
		w.add(j, quick...)
		w.ends(j, 150)
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("the others took %v", took)
		}
		w.consistent(j)
		w.ends(slow, 30)
		w.consistent(slow)
		if got := w.hosts["h0.example"].least; got < 20*time.Second {
			t.Errorf("the slow host was asked after %v", got)
		}
		for _, task := range w.tasks(slow) {
			if task.Attempts != 1 {
				t.Errorf("%s: %d attempts: waiting is none", task.URI, task.Attempts)
			}
		}
	})
}

// TestShares: shards are shared evenly as workers come and go, and no shard has two workers.
func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stops := map[string]func(){}
		has := func(want ...int) func() bool {
			return func() bool {
				holders, err := w.store.Holders(t.Context(), download.ShardPrefix)
				if err != nil {
					t.Fatal(err)
				}
				n := map[string]int{}
				for _, owner := range holders {
					n[owner]++
				}
				got := slices.Sorted(maps.Values(n))
				return slices.Equal(got, want)
			}
		}
		for i, want := range [][]int{{256}, {128, 128}, {85, 85, 86}} {
			owner := fmt.Sprint("w", i)
			_, stops[owner] = w.start(Options{Owner: owner})
			w.until(fmt.Sprint(want), has(want...))
		}
		stops["w1"]()
		w.until("w1 has gone", has(128, 128))
		stops["w0"]()
		stops["w2"]()
		if !has()() {
			t.Error("shards are held after the end")
		}
	})
}

// TestUnknownEngine: the task fails with a reason instead of being stuck.
func TestUnknownEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 5, MaxAttempts: 5})
		w.add(j, "http://h.example/ok/1")
		w.start(Options{Owner: "w", Engines: map[string]Engine{"other": w}})
		w.ends(j, 1)
		w.consistent(j)
		if got := w.tasks(j)["http://h.example/ok/1"].Reason; !strings.Contains(got, `no engine "test"`) {
			t.Errorf("the reason is %q", got)
		}
	})
}

// metric is the sum of a metric over its labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
			}
		}
	}
	if !found {
		t.Errorf("there is no metric %s", name)
	}
	return sum
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	first, most := 10*time.Second, time.Hour
	for n := 1; n < 100; n++ {
		want := min(first<<min(n-1, 20), most)
		for range 100 {
			if got := backoff(n, first, most); got < want/2 || got > min(want/2*3, most) {
				t.Fatalf("after attempt %d: %v, want %v give or take a half", n, got, want)
			}
		}
	}
}
