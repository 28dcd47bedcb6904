package downloadtest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func addTasks(r *rig) {
	j := r.addJob(job("news"))
	tasks := append(newTasks(0, 3), newTasks(1, 3)...) // twice in one list
	n, err := r.AddTasks(ctx, j.ID, tasks)
	r.need(err)
	if n != 4 {
		r.Errorf("added %d, want 4", n)
	}
	got := r.task(j.ID, download.TaskID(j.ID, uri(1)))
	want := download.Task{ID: download.TaskID(j.ID, uri(1)), Job: j.ID, URI: uri(1), Shard: 1, State: download.Waiting, NotBefore: r.clock.Now(), Added: r.clock.Now()}
	if got != want {
		r.Errorf("task\n%+v, want\n%+v", got, want)
	}
	// Existing tasks stay as they are, whatever their state.
	r.handOut(j.ID, 4)
	leases := r.lease(wish("w", 3))
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
	r.need(r.Fail(ctx, leases[1], attempt, time.Time{}))
	before := r.tasks(download.Query{Job: j.ID})
	r.clock.Advance(time.Minute)
	if n, err = r.AddTasks(ctx, j.ID, newTasks(0, 5)); err != nil || n != 1 {
		r.Errorf("added %d, %v, want 1", n, err)
	}
	for _, task := range before {
		if got := r.task(j.ID, task.ID); got != task {
			r.Errorf("task that was there\n%+v, want\n%+v", got, task)
		}
	}
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 1, download.Ready: 1, download.Running: 1, download.Done: 1, download.Failed: 1})
	if n, err = r.AddTasks(ctx, j.ID, nil); err != nil || n != 0 {
		r.Errorf("no tasks: %d, %v", n, err)
	}
	other := r.addJob(job("other"))
	r.addTasks(other.ID, 0, 5) // every job has a separate task for a URI
	odd := []download.NewTask{{URI: ""}, {URI: "a\x00b"}, {URI: "héé'\"$.{}"}, {URI: "https://x/" + string(make([]byte, 5000))}}
	if n, err = r.AddTasks(ctx, other.ID, odd); err != nil || n != len(odd) {
		r.Errorf("odd URIs: %d, %v", n, err)
	}
	for _, o := range odd {
		if got := r.task(other.ID, download.TaskID(other.ID, o.URI)); got.URI != o.URI {
			r.Errorf("URI %q, want %q", got.URI, o.URI)
		}
	}
}

func addTasksAtOnce(r *rig) {
	j := r.addJob(job("news"))
	var sum atomic.Int64
	together(8, func(i int) {
		n, err := r.AddTasks(ctx, j.ID, newTasks(i*r.n(100), r.n(1500))) // each overlaps most of its neighbours
		if err != nil {
			r.Error(err)
		}
		sum.Add(int64(n))
	})
	want := r.n(1500) + 7*r.n(100)
	if sum.Load() != int64(want) {
		r.Errorf("added %d in all, want %d", sum.Load(), want)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: want})
}

func handOut(r *rig) {
	j := r.addJob(job("news"))
	for i := range 5 { // of one host; the last waits longest
		r.addTasks(j.ID, 7*(4-i), 1)
		r.clock.Advance(time.Second)
	}
	got := r.handOut(j.ID, 2)
	if len(got) != 2 || got[0].URI != uri(7*4) || got[1].URI != uri(7*3) {
		r.Errorf("handed out %v, want the longest waiting", got)
	}
	if got[0].State != download.Ready || !got[0].Until.Equal(r.clock.Now().Add(time.Hour)) || got[0].Attempts != 0 {
		r.Errorf("handed out %+v", got[0])
	}
	if task := r.task(j.ID, got[0].ID); task != got[0] {
		r.Errorf("task\n%+v, want\n%+v", task, got[0])
	}
	wantLen(r, "handed out, none at most", r.handOut(j.ID, 0), 0)
	wantLen(r, "handed out of the others", r.handOut(j.ID, 10), 3)
	// A task with a pause is not handed out before its time.
	l := r.lease(wish("w", 1))[0]
	r.need(r.Fail(ctx, l, attempt, r.clock.Now().Add(time.Minute)))
	r.clock.Advance(time.Minute - time.Millisecond)
	wantLen(r, "handed out before its time", r.handOut(j.ID, 10), 0)
	r.clock.Advance(time.Millisecond)
	if got := r.handOut(j.ID, 10); len(got) != 1 || got[0].ID != l.Task.ID {
		r.Errorf("handed out %v, want %s", got, l.Task.ID)
	}
	// Many callers at once: each task goes out once.
	r.addTasks(j.ID, 100, r.n(300))
	var mu sync.Mutex
	seen := map[string]int{}
	together(16, func(int) {
		for range 3 {
			tasks, err := r.HandOut(ctx, j.ID, 10, 0, time.Hour)
			if err != nil {
				r.Error(err)
			}
			mu.Lock()
			for _, task := range tasks {
				seen[task.ID]++
			}
			mu.Unlock()
		}
	})
	for id, n := range seen {
		if n != 1 {
			r.Errorf("%s was handed out %d times", id, n)
		}
	}
	if len(seen) != r.n(300) {
		r.Errorf("%d tasks were handed out, want %d", len(seen), r.n(300))
	}
}

func lease(r *rig) {
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, 30)
	byRank := map[string]int64{}
	for _, rank := range []int64{7, -3, 5, 1 << 40} {
		tasks, err := r.HandOut(ctx, j.ID, 5, rank, time.Hour)
		r.need(err)
		for _, task := range tasks {
			byRank[task.ID] = rank
		}
	}
	wantLen(r, "leased", r.lease(wish("w", 0)), 0)
	r.clock.Advance(time.Second)
	first := r.lease(wish("w", 3))
	rest := r.lease(wish("w", 100))
	if len(first) != 3 || len(rest) != 17 {
		r.Fatalf("leased %d and %d, want 3 and 17", len(first), len(rest))
	}
	var ranks []int64
	for _, l := range slices.Concat(first, rest) {
		ranks = append(ranks, byRank[l.Task.ID])
		if l.Version != 1 || l.Task.State != download.Running || l.Task.Owner != "w" || l.Task.Attempts != 1 || l.Task.Fence != 1 || !l.Task.Until.Equal(r.clock.Now().Add(time.Minute)) || !l.Task.NotBefore.IsZero() {
			r.Errorf("lease %+v", l)
		}
		if got := r.task(j.ID, l.Task.ID); got != l.Task {
			r.Errorf("task\n%+v, want\n%+v", got, l.Task)
		}
	}
	if !slices.IsSorted(ranks) || ranks[0] != -3 || ranks[19] != 1<<40 {
		r.Errorf("leased by ranks %v", ranks)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 10, download.Running: 20})
	wantLen(r, "leased", r.lease(wish("w", 100)), 0)
}

func renew(r *rig) {
	j, leases := r.leased("news", 5)
	r.clock.Advance(50 * time.Second)
	other := leases[1]
	other.Task.Fence++
	r.need(r.GiveBack(ctx, leases[2], time.Time{}))
	r.need(r.Finish(ctx, leases[3], result(""), attempt))
	r.wantLost("worker", []download.Lease{leases[0], other, leases[2], leases[3]}, time.Minute, other, leases[2], leases[3])
	r.wantLost("another", leases[:2], time.Hour, leases[:2]...)
	r.wantLost("worker", nil, time.Hour)
	if got := r.task(j.ID, leases[0].Task.ID).Until; !got.Equal(r.clock.Now().Add(time.Minute)) {
		r.Errorf("renewed until %v", got)
	}
	r.clock.Advance(59 * time.Second) // the first still holds, the others do not
	r.need(r.Finish(ctx, leases[0], result(""), attempt))
	r.wantLost("worker", []download.Lease{leases[1], leases[4]}, time.Minute, leases[1], leases[4]) // they ran out
	// More than fit in one statement.
	big := r.addJob(job("big"))
	r.addTasks(big.ID, 0, r.n(2500))
	r.handOut(big.ID, r.n(2500))
	many := r.lease(wish("worker", 2500))
	wantLen(r, "leased", many, r.n(2500))
	r.wantLost("worker", many, time.Hour)
	r.wantLost("nobody", many, time.Hour, many...)
}

func giveBack(r *rig) {
	j, leases := r.leased("news", 2)
	later := r.clock.Now().Add(time.Hour)
	r.need(r.GiveBack(ctx, leases[0], later))
	got := r.task(j.ID, leases[0].Task.ID)
	if got.State != download.Waiting || got.Attempts != 0 || got.Fence != 1 || got.Owner != "" || !got.NotBefore.Equal(later) || !got.Until.IsZero() {
		r.Errorf("given back: %+v", got)
	}
	r.want("again", r.GiveBack(ctx, leases[0], later), download.ErrLeaseLost)
	wantLen(r, "handed out before its time", r.handOut(j.ID, 5), 0)
	r.need(r.GiveBack(ctx, leases[1], time.Time{}))
	if got := r.handOut(j.ID, 5); len(got) != 1 || got[0].ID != leases[1].Task.ID {
		r.Errorf("handed out %v, want what was given back", got)
	}
	if l := r.lease(wish("w", 5)); len(l) != 1 || l[0].Task.Attempts != 1 || l[0].Task.Fence != 2 {
		r.Errorf("leased %+v", l)
	}
	wantLen(r, "logs", r.logs(download.Query{Job: j.ID}), 0)
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 1, download.Running: 1})
}

// fences: only the newest lease settles.
func fences(r *rig) {
	j, old := r.leased("news", 4)
	for _, l := range old {
		r.need(r.GiveBack(ctx, l, time.Time{}))
	}
	r.handOut(j.ID, 4)
	fresh := r.lease(wish("worker", 4)) // the same name: only the fence tells them apart
	for _, l := range old {
		r.wantVoid(l)
	}
	r.wantLost("worker", old, time.Hour, old...)
	for _, l := range fresh {
		r.need(r.Finish(ctx, l, result("fresh"), attempt))
		r.wantVoid(l) // the task is done
		if got := r.body(l.Task.ID); got != "fresh" {
			r.Errorf("body %q, want that of the newest lease", got)
		}
	}
	if len(r.data(download.Query{Job: j.ID})) != 4 || len(r.logs(download.Query{Job: j.ID})) != 4 {
		r.Error("want data and log once a task")
	}
	r.wantCounts(j.ID, map[download.State]int{download.Done: 4})
}

// ranOut: a lease ends when its time is over, even without a sweep.
func ranOut(r *rig) {
	j, leases := r.leased("news", 3)
	r.clock.Advance(time.Minute)
	for _, l := range leases {
		r.wantVoid(l)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Running: 3})
	if len(r.data(download.Query{Job: j.ID})) != 0 || len(r.logs(download.Query{Job: j.ID})) != 0 {
		r.Error("a late worker has stored something")
	}
	// Neither is a task leased that was ready for too long.
	r.addTasks(j.ID, 10, 1)
	_, err := r.HandOut(ctx, j.ID, 1, 0, time.Second)
	r.need(err)
	r.clock.Advance(time.Second)
	wantLen(r, "leased", r.lease(wish("w", 10)), 0)
}
