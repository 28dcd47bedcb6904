package downloadtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func sweep(r *rig) {
	j := job("news")
	j.Setting.MaxAttempts = 1 // which what nobody tried does not use up
	j = r.addJob(j)
	r.addTasks(j.ID, 0, 6)
	r.handOut(j.ID, 6)
	leases := r.lease(wish("worker", 3))
	r.wantSwept(0, download.Swept{})
	r.clock.Advance(time.Minute - time.Millisecond)
	r.wantSwept(0, download.Swept{})
	r.need(r.Finish(ctx, leases[0], result("in time"), attempt))
	r.clock.Advance(time.Millisecond)
	r.wantSwept(0, download.Swept{Abandoned: 2})
	task := r.task(j.ID, leases[1].Task.ID)
	if task.State != download.Waiting || task.Attempts != 0 || task.Abandoned != 1 || !strings.Contains(task.Reason, "worker") || task.Owner != "" || task.NotBefore.After(r.clock.Now()) {
		r.Errorf("abandoned: %+v", task)
	}
	r.want("finish what was swept", r.Finish(ctx, leases[1], result("late"), attempt), download.ErrLeaseLost)
	if logs := r.logs(download.Query{Job: j.ID, Task: task.ID}); len(logs) != 1 || logs[0].Reason != task.Reason || logs[0].Number != 0 || logs[0].Version != 1 {
		r.Errorf("logs of an abandoned lease: %+v", logs)
	}
	r.handOut(j.ID, 10)
	r.lease(wish("worker", 5))
	r.clock.Advance(time.Minute)
	r.wantSwept(0, download.Swept{Abandoned: 5})
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 5, download.Done: 1})

	// Ready for too long, more than one part has.
	big := r.addJob(job("big"))
	all := r.n(2100)
	r.addTasks(big.ID, 0, all)
	_, err := r.HandOut(ctx, big.ID, all, 0, time.Minute)
	r.need(err)
	r.lease(wish("worker", all/2))
	r.clock.Advance(time.Minute)
	r.wantSwept(0, download.Swept{Unclaimed: all / 2, Abandoned: all / 2})
	r.wantCounts(big.ID, map[download.State]int{download.Waiting: all})
	if tasks := r.handOut(big.ID, all); len(tasks) != all {
		r.Errorf("handed out %d after the sweep, want all", len(tasks))
	}
}

func (r *rig) wantSwept(keepLogs time.Duration, want download.Swept) {
	r.Helper()
	got, err := r.Sweep(ctx, keepLogs)
	r.need(err)
	if got != want {
		r.Errorf("swept %+v, want %+v", got, want)
	}
}

func sweepLogs(r *rig) {
	j, leases := r.leased("news", 5)
	for i, l := range leases {
		if i == 2 {
			r.need(r.Fail(ctx, l, download.Attempt{Reason: "no"}, time.Time{}))
		} else {
			r.need(r.Finish(ctx, l, result("text"), attempt))
		}
		r.clock.Advance(time.Second)
	}
	r.clock.Advance(time.Hour)
	r.wantSwept(0, download.Swept{})
	if n := len(r.logs(download.Query{Job: j.ID})); n != 5 {
		r.Errorf("%d logs, want all", n)
	}
	r.wantSwept(time.Hour+2*time.Second, download.Swept{Logs: 3})
	if logs := r.logs(download.Query{Job: j.ID}); len(logs) != 2 || logs[0].Task != leases[3].Task.ID {
		r.Errorf("logs %+v, want the newest two", logs)
	}
	if n := len(r.data(download.Query{Job: j.ID})); n != 4 {
		r.Errorf("%d data, want 4: only logs are removed", n)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Done: 4, download.Failed: 1})
}

// abandoned has every worker die of one task, and of another only at first.
func abandoned(r *rig) {
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, 2)
	killer, other := download.TaskID(j.ID, uri(0)), download.TaskID(j.ID, uri(1))
	for n := 1; n <= download.MaxAbandoned; n++ {
		want := download.Swept{Abandoned: 1, Failed: n / download.MaxAbandoned}
		if got := r.handOut(j.ID, 2); len(got) == 0 || n == 2 && len(got) != 2 { // after the first time it waits for nothing
			r.Fatalf("lease %d: handed out %v", n, got)
		}
		for _, l := range r.lease(wish(fmt.Sprint("worker", n), 2)) {
			switch {
			case l.Task.Attempts != 1 || l.Task.Abandoned != n-1:
				r.Errorf("lease %d: %+v", n, l)
			case l.Task.ID == other && n == 3:
				r.need(r.Finish(ctx, l, result("text"), attempt))
			case l.Task.ID == other:
				want.Abandoned++
			}
		}
		r.clock.Advance(time.Minute)
		r.wantSwept(0, want)
		if task := r.task(j.ID, killer); n < download.MaxAbandoned && task.NotBefore != r.clock.Now().Add(download.PauseAbandoned(killer, n)) {
			r.Errorf("after lease %d: %+v", n, task)
		}
		r.clock.Advance(time.Duration(n) * 10 * time.Second)
	}
	if task := r.task(j.ID, killer); task.State != download.Failed || task.Attempts != 0 || task.Abandoned != download.MaxAbandoned || !strings.Contains(task.Reason, "it gets no other") {
		r.Errorf("what kills workers: %+v", task)
	}
	if task := r.task(j.ID, other); task.State != download.Done || task.Attempts != 1 || task.Abandoned != 2 {
		r.Errorf("its neighbour: %+v", task)
	}
	if logs := r.logs(download.Query{Job: j.ID, Task: other}); len(logs) != 3 || logs[0].Number != 0 || logs[1].Number != 0 || logs[2].Number != 1 {
		r.Errorf("logs %+v, want two abandoned leases and the first attempt", logs)
	}
}
