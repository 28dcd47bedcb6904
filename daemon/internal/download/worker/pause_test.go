package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// further is an engine that waits on paths of /turn/ and /first/ until released, and then asks for that turn.
type further struct {
	*world
	begun, release chan struct{}
	took           chan time.Duration // time spent waiting for the turn, of the first attempt of each
}

func (f *further) Download(ctx context.Context, work Work) (Page, error) {
	uri := work.Task.URI
	if strings.Contains(uri, "/ok/") || strings.Contains(uri, "/after/") || work.Task.Fence > 1 {
		return f.world.Download(ctx, work)
	}
	f.begun <- struct{}{}
	<-f.release
	began := time.Now()
	turn := func() error { return work.Turn(ctx, uri) }
	if strings.Contains(uri, "/first/") {
		turn = func() error { return work.First(ctx) }
	}
	err := turn()
	f.took <- time.Since(began)
	if err != nil {
		return Page{}, err
	}
	return f.world.Download(ctx, work)
}

// TestRetryAfterGivesThePlaceBack: if a host asks for a pause, running tasks that want to call it once
// more do not wait while they occupy a place. If a task has made no request yet, no attempt is counted.
func TestRetryAfterGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		engine := &further{world: w, begun: make(chan struct{}, 2), release: make(chan struct{}), took: make(chan time.Duration, 2)}
		j := w.job("a", download.Setting{Dispatch: 500, MaxAttempts: 3, Concurrency: 3})
		const turn, first, after, other = "http://h.example/turn/1", "http://h.example/first/1", "http://h.example/after/1", "http://other.example/ok/1"
		w.add(j, turn, first)
		w.start(Options{Owner: "w", Concurrency: 3, Engines: map[string]Engine{"test": engine}, RetryFirst: time.Millisecond, RetryMax: time.Second})
		<-engine.begun
		<-engine.begun
		w.add(j, after)
		w.until("the host asks for a pause", func() bool { return w.tasks(j)[after].State == download.Waiting && w.tasks(j)[after].Attempts == 1 })
		paused := time.Now()
		close(engine.release)
		for range 2 {
			if took := <-engine.took; took > time.Second {
				t.Errorf("a place was held for %v", took)
			}
		}
		w.until("both wait", func() bool { return w.counts(j)[download.Waiting] == 3 })
		for uri, attempts := range map[string]int{turn: 1, first: 0} {
			task := w.tasks(j)[uri]
			if wait := task.NotBefore.Sub(paused); task.Attempts != attempts || wait < 28*time.Second || wait > 31*time.Second {
				t.Errorf("%s: %d attempts are counted, and it waits for %v: want %d and the 30 s of the host", uri, task.Attempts, wait, attempts)
			}
		}
		w.add(j, other)
		w.ends(j, 1)
		if took := time.Since(paused); w.tasks(j)[other].State != download.Done || took > 20*time.Second {
			t.Errorf("%s has ended after %v", other, took)
		}
		w.ends(j, 4)
		if got := w.counts(j)[download.Done]; got != 4 || time.Since(paused) < 28*time.Second {
			t.Errorf("%d are done after %v, want 4 after 30 s", got, time.Since(paused))
		}
		w.consistent(j)
	})
}

// TestShortPause is waited for.
func TestShortPause(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	if got := q.pause("a", now); got != 0 {
		t.Errorf("a host that nobody knows: %v", got)
	}
	q.host("a", 1, time.Time{}).notBefore = now.Add(7 * time.Second)
	if got := q.pause("a", now); got != 7*time.Second {
		t.Errorf("got %v, want 7 s", got)
	}
	if got := q.reserve("a", time.Second, false, now).at; !got.Equal(now.Add(7 * time.Second)) {
		t.Errorf("the turn is at %v, want 7 s from now", got)
	}
}

// refused is an engine whose first task is refused while the second one waits for a further turn.
type refused struct {
	*world
	asks chan time.Duration // until the further turn came, or was refused
}

func (e *refused) Download(ctx context.Context, work Work) (Page, error) {
	if strings.Contains(work.Task.URI, "/after/") {
		time.Sleep(15 * time.Second)
		return Page{}, &Failure{Reason: "busy", Status: 429, After: 30 * time.Second, Permanent: true}
	}
	began := time.Now()
	err := work.Turn(ctx, work.Task.URI)
	e.asks <- time.Since(began)
	return Page{}, err
}

// A turn that is waited for is none any more when the host asks for a pause.
func TestPauseWhileATurnIsWaitedFor(t *testing.T) {
	t.Parallel()
	for bound, want := range map[time.Duration]time.Duration{
		time.Minute: 35 * time.Second, // the pause begins 15 s after the start, and the second task 10 s
		time.Second: 10 * time.Second, // when the turn would have come
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			engine := &refused{world: w, asks: make(chan time.Duration, 1)}
			j := w.job("a", download.Setting{Dispatch: 10, MaxAttempts: 1, Concurrency: 2, Delay: 10 * time.Second})
			w.add(j, "http://h.example/after/1")
			w.start(Options{Owner: "w", Concurrency: 2, Bound: bound, Engines: map[string]Engine{"test": engine}})
			w.until("the first task runs", func() bool { return w.counts(j)[download.Running] == 1 })
			w.add(j, "http://h.example/turn/1") // begins at 10 s, and would have its further turn at 20 s
			if got := <-engine.asks; got < want || got > want+2*time.Second {
				t.Errorf("bound %s: the turn was had, or refused, after %s, want %s", bound, got, want)
			}
			w.ends(j, 2)
			if reason := w.tasks(j)["http://h.example/turn/1"].Reason; bound == time.Second != strings.HasPrefix(reason, "retry_after: ") {
				t.Errorf("bound %s: ended with %q", bound, reason)
			}
		})
	}
}

// A pause that a host has asked for holds for the worker that gets its shard next, too, as after a restart.
func TestPauseIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		j := w.job("a", download.Setting{Dispatch: 10, MaxAttempts: 3, Concurrency: 1})
		const after, ok, other = "http://h.example/after/1", "http://h.example/ok/1", "http://other.example/ok/1"
		w.add(j, after)
		_, stop := w.start(Options{Owner: "first"})
		w.until("the host asks for a pause", func() bool { return w.tasks(j)[after].State == download.Waiting && w.tasks(j)[after].Attempts == 1 })
		stop()
		paused := time.Now()
		w.add(j, ok, other)
		w.start(Options{Owner: "second"})
		w.until("another host is called", func() bool { return w.tasks(j)[other].State == download.Done })
		if took := time.Since(paused); took > 20*time.Second {
			t.Errorf("another host was called after %s", took)
		}
		w.until("it is called", func() bool { return w.tasks(j)[ok].State == download.Done })
		if took := time.Since(paused); took < 29*time.Second {
			t.Errorf("called %s after it had asked for 30 s", took)
		}
	})
}

// leading is an engine whose tasks of /to/HOST are led to that host, which asks for a pause.
type leading struct{ *world }

func (e leading) Download(ctx context.Context, work Work) (Page, error) {
	if _, host, led := strings.Cut(work.Task.URI, "/to/"); led {
		return Page{}, &Failure{Reason: "busy", Status: 429, After: 10 * time.Minute, Host: host, Permanent: true}
	}
	return e.world.Download(ctx, work)
}

// A worker that is told of a pause by a host of another one, to which a redirect led, tells that one: it hears of it
// when it renews its shards.
func TestPauseReachesTheHolderOfTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, owner := range []string{"first", "second"} {
			w.start(Options{Owner: owner, Bound: time.Hour, Engines: map[string]Engine{"test": leading{w}}})
		}
		holder := func() map[string]string {
			holders, err := w.store.Holders(t.Context(), download.ShardPrefix)
			if err != nil {
				t.Fatal(err)
			}
			return holders
		}
		w.until("both have shards", func() bool {
			n := map[string]int{}
			for _, owner := range holder() {
				n[owner]++
			}
			return n["first"] == n["second"] && n["first"] > 0
		})
		const from = "from.example"
		of := func(host string) string { return holder()[shardName(download.ShardOf(host))] }
		n := 0
		for of(fmt.Sprintf("h%d.example", n)) == of(from) {
			n++
		}
		to := fmt.Sprintf("h%d.example", n)
		j := w.job("a", download.Setting{Dispatch: 10, MaxAttempts: 1, Concurrency: 1})
		w.add(j, "http://"+from+"/to/"+to)
		w.ends(j, 1)
		paused := time.Now()
		time.Sleep(15 * time.Second) // shards are renewed every 10 s
		w.add(j, "http://"+to+"/ok/1")
		w.ends(j, 2)
		if took := time.Since(paused); took < 9*time.Minute {
			t.Errorf("its own worker called it %s after it had asked another one for 10 min", took)
		}
		w.consistent(j)
	})
}
