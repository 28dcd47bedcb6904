package worker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestQueue plays random histories: no gap is too short, no more tasks run at once than may, each
// host keeps its order, and a host that could be called is not forgotten.
func TestQueue(t *testing.T) {
	t.Parallel()
	for range 100 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 7))
		q := newQueue()
		now := time.Unix(1_800_000_000, 0)
		start := now
		type model struct {
			last      time.Time
			delay     time.Duration
			notBefore time.Time
			running   []*task
			order     int64
		}
		hosts := map[string]*model{}
		waiting := map[*task]bool{}
		var running []*task
		for step := range 2000 {
			switch n := r.IntN(10); {
			case n < 4 && len(waiting) < 200:
				name := fmt.Sprint("h", r.IntN(8))
				task := &task{host: name, job: download.Job{Setting: download.Setting{
					Delay: time.Duration(r.IntN(4)) * time.Second, Concurrency: r.IntN(4)}}}
				if hosts[name] == nil {
					hosts[name] = &model{last: start}
				}
				q.add(task, start)
				waiting[task] = true
			case n < 5 && len(running) > 0:
				i := r.IntN(len(running))
				task := running[i]
				running = append(running[:i], running[i+1:]...)
				h := hosts[task.host]
				for i := range h.running {
					if h.running[i] == task {
						h.running = append(h.running[:i], h.running[i+1:]...)
						break
					}
				}
				s := signal{good: r.IntN(2) == 0, crowded: r.IntN(8) == 0}
				if r.IntN(8) == 0 {
					s.after = time.Duration(r.IntN(10)) * time.Second
					if until := now.Add(s.after); until.After(h.notBefore) {
						h.notBefore = until
					}
				}
				q.ended(task, s, now)
			case n < 6:
				for task := range waiting {
					if r.IntN(20) == 0 {
						if !q.remove(task) || q.remove(task) {
							t.Fatalf("seed %d: a task that waits was not there, or stayed", seed)
						}
						delete(waiting, task)
						break
					}
				}
			case n < 7:
				name := fmt.Sprint("h", r.IntN(8))
				if h := hosts[name]; h != nil && len(h.running) > 0 {
					delay := time.Duration(r.IntN(4)) * time.Second
					at := q.reserve(name, delay, false, now).at
					if at.Before(now) || at.Before(h.last.Add(max(h.delay, delay))) || at.Before(h.notBefore) {
						t.Fatalf("seed %d: a further request at %v, %v after the last", seed, at, at.Sub(h.last))
					}
					h.last, h.delay = at, delay
				}
			case n < 8:
				q.forget(now)
			default:
				task, at := q.next(now)
				if task == nil {
					if at.IsZero() {
						if len(running) == 0 && len(waiting) > 0 {
							t.Fatalf("seed %d: nothing runs, %d wait, and none may begin", seed, len(waiting))
						}
						now = now.Add(time.Second)
						continue
					}
					now = at
					if task, _ = q.next(now); task == nil {
						t.Fatalf("seed %d, step %d: none may begin when it was said", seed, step)
					}
				}
				h := hosts[task.host]
				if gap := now.Sub(h.last); gap < max(h.delay, task.delay()) || now.Before(h.notBefore) {
					t.Fatalf("seed %d: a gap of %v, want %v", seed, gap, max(h.delay, task.delay()))
				}
				h.running = append(h.running, task)
				for _, other := range h.running {
					if len(h.running) > other.concurrency() {
						t.Fatalf("seed %d: %d at once, want %d", seed, len(h.running), other.concurrency())
					}
				}
				if task.order < h.order || !waiting[task] {
					t.Fatalf("seed %d: out of order", seed)
				}
				h.last, h.delay, h.order = now, task.delay(), task.order
				delete(waiting, task)
				running = append(running, task)
			}
			if q.n != len(waiting) {
				t.Fatalf("seed %d: %d wait, want %d", seed, q.n, len(waiting))
			}
		}
	}
}

// TestQueueSlowsDown: signs of an overloaded host double the pause up to a bound; good answers halve it.
func TestQueueSlowsDown(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	job := download.Job{Setting: download.Setting{Delay: 100 * time.Millisecond, Concurrency: 1}}
	gap := func(s signal) time.Duration {
		first := &task{host: "h", job: job}
		q.add(first, time.Time{})
		_, at := q.next(now)
		if !at.IsZero() {
			now = at
			q.next(now)
		}
		q.ended(first, s, now)
		second := &task{host: "h", job: job}
		q.add(second, time.Time{})
		_, at = q.next(now)
		q.remove(second)
		return at.Sub(now)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120} {
		if got := gap(signal{crowded: true}); got != want*time.Second {
			t.Errorf("after %d signs: %v, want %d s", i+1, got, want)
		}
	}
	for i, want := range []time.Duration{60_000, 30_000, 15_000, 7500, 3750, 1875, 100, 100} {
		if got := gap(signal{good: true}); got != want*time.Millisecond {
			t.Errorf("after %d good answers: %v, want %d ms", i+1, got, want)
		}
	}
	if got := gap(signal{}); got != 100*time.Millisecond {
		t.Errorf("after a failure of its own: %v", got)
	}
}

// TestQueueForgets hosts about which nothing important is known.
func TestQueueForgets(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	for i := range 1000 {
		task := &task{host: fmt.Sprint("h", i), job: download.Job{Setting: download.Setting{Delay: time.Minute}}}
		q.add(task, now.Add(-time.Minute))
		if got, _ := q.next(now); got != task {
			t.Fatalf("task %d does not begin", i)
		}
		q.ended(task, signal{good: true}, now)
	}
	q.forget(now.Add(maxSlow - 1))
	if len(q.hosts) != 1000 {
		t.Errorf("%d hosts are known before, want 1000", len(q.hosts))
	}
	q.forget(now.Add(maxSlow))
	if len(q.hosts) != 0 {
		t.Errorf("%d hosts are known after it, want 0", len(q.hosts))
	}
}

// TestQueueAfterRedirect: a redirect to a host says nothing about when its last owner called it.
func TestQueueAfterRedirect(t *testing.T) {
	t.Parallel()
	q := newQueue()
	since := time.Unix(1_800_000_000, 0)
	q.reserve("h", 0, false, since.Add(-time.Minute))
	q.add(&task{host: "h", job: download.Job{Setting: download.Setting{Delay: 10 * time.Second}}}, since)
	if _, at := q.next(since); !at.Equal(since.Add(10 * time.Second)) {
		t.Errorf("it begins %v after the shard was gained, want 10s", at.Sub(since))
	}
}

// TestQueueSignalOfAnotherHost: what the host at the end of a redirect asks for counts for that host, not for the task's.
func TestQueueSignalOfAnotherHost(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	first, second, other := &task{host: "a"}, &task{host: "a"}, &task{host: "b"}
	q.add(first, now.Add(-time.Hour))
	if got, _ := q.next(now); got != first {
		t.Fatal("the task does not begin")
	}
	q.reserve("b", 0, false, now)
	q.ended(first, signal{crowded: true, after: time.Minute, host: "b"}, now)
	q.add(other, now.Add(-time.Hour))
	q.add(second, now.Add(-time.Hour))
	if got, _ := q.next(now); got != second {
		t.Errorf("began %+v, want the task of the host that only redirects", got)
	}
	if got, at := q.next(now); got != nil || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("the other host may be called %s later, want 1m", at.Sub(now))
	}
}
