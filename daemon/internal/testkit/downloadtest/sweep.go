package downloadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func sweep(r *rig) {
	j := job("news")
	j.Setting.MaxAttempts = 1 // an unclaimed task does not use it up
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

	// Ready for too long, more tasks than fit in one part.
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

// abandoned lets one task kill every worker, and another only the first ones.
func abandoned(r *rig) {
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, 2)
	killer, other := download.TaskID(j.ID, uri(0)), download.TaskID(j.ID, uri(1))
	for n := 1; n <= download.MaxAbandoned; n++ {
		want := download.Swept{Abandoned: 1, Failed: n / download.MaxAbandoned}
		if got := r.handOut(j.ID, 2); len(got) == 0 || n == 2 && len(got) != 2 { // after the first time it does not wait
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

func drop(r *rig) {
	j, leases := r.leased("news", 4)
	other, others := r.leased("other", 3)
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
	r.need(r.Finish(ctx, leases[3], result(strings.Repeat("x", r.opt.LargeBody+1)), attempt))
	r.need(r.Finish(ctx, others[0], result("other"), attempt))
	r.need(r.Fail(ctx, leases[1], attempt, time.Time{}))
	opened, err := r.Body(ctx, leases[0].Task.ID)
	r.need(err)
	defer opened.Close()

	r.need(r.DropJob(ctx, "news"))
	r.gone(j, leases)
	r.want("drop twice", r.DropJob(ctx, "news"), download.ErrNoJob)

	again := r.addJob(job("news"))
	if again.ID == j.ID {
		r.Error("the number of a dropped job was given again")
	}
	r.wantCounts(again.ID, nil)
	r.addTasks(again.ID, 0, 4) // the URIs count as new
	r.gone(j, leases)
	r.wantCounts(other.ID, map[download.State]int{download.Running: 2, download.Done: 1})
	if got := r.body(others[0].Task.ID); got != "other" {
		r.Errorf("body of the other job: %q", got)
	}
}

// gone checks that nothing of a dropped job can be seen or settled.
func (r *rig) gone(j download.Job, leases []download.Lease) {
	r.Helper()
	_, err := r.JobVersion(ctx, j.ID, 1)
	r.want("version", err, download.ErrNoJob)
	_, err = r.Counts(ctx, j.ID)
	r.want("counts", err, download.ErrNoJob)
	_, err = r.AddTasks(ctx, j.ID, newTasks(0, 1))
	r.want("add tasks", err, download.ErrNoJob)
	_, err = r.HandOut(ctx, j.ID, 10, 0, time.Hour)
	r.want("hand out", err, download.ErrNoJob)
	q := download.Query{Job: j.ID}
	if len(r.tasks(q)) != 0 || len(r.logs(q)) != 0 || len(r.data(q)) != 0 {
		r.Error("there are records of a dropped job")
	}
	for _, l := range leases {
		r.wantVoid(l)
		_, err := r.Body(ctx, l.Task.ID)
		r.want("body", err, download.ErrNoData)
	}
	r.wantLost("worker", leases, time.Minute, leases...)
}

// dropUnderWay drops a job while workers hold its tasks.
func dropUnderWay(r *rig) {
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, r.n(400))
	var finished atomic.Int32
	start := make(chan struct{})
	together(9, func(i int) {
		if i == 8 {
			<-start
			if err := r.DropJob(ctx, "news"); err != nil {
				r.Error(err)
			}
			return
		}
		for {
			if _, err := r.HandOut(ctx, j.ID, 10, 0, time.Hour); errors.Is(err, download.ErrNoJob) {
				return
			} else if err != nil {
				r.Error(err)
				return
			}
			leases, err := r.Lease(ctx, wish(fmt.Sprint(i), 5))
			if err != nil {
				r.Error(err)
				return
			}
			for _, l := range leases {
				err := r.Finish(ctx, l, result("text"), attempt)
				if err != nil && !errors.Is(err, download.ErrLeaseLost) {
					r.Error(err)
				}
				if int(finished.Add(1)) == r.n(60) {
					close(start)
				}
			}
		}
	})
	r.gone(j, nil)
	_, err := r.Sweep(ctx, 0)
	r.need(err)
	again := r.addJob(job("news"))
	r.addTasks(again.ID, 0, r.n(400))
}

// dropBySweep interrupts a drop.
func dropBySweep(r *rig) {
	j, leases := r.leased("news", 12)
	for _, l := range leases[:6] {
		r.need(r.Finish(ctx, l, result("text"), attempt))
	}
	ending := &endsSoon{Context: ctx, asked: 3}
	err := r.DropJob(ending, "news")
	if errors.Is(err, context.Canceled) { // the drop had not begun
		r.need(r.DropJob(ctx, "news"))
	} else {
		r.need(err)
	}
	r.gone(j, leases)
	r.reopen()
	r.gone(j, leases)
	_, err = r.Sweep(ctx, 0)
	r.need(err)
	r.gone(j, leases)
	if all, err := r.ListJobs(ctx); err != nil || len(all) != 0 {
		r.Errorf("jobs %v, %v", all, err)
	}
}

// endsSoon is a context that ends after it was checked a number of times.
type endsSoon struct {
	context.Context
	asked int32
}

func (e *endsSoon) Err() error {
	if atomic.AddInt32(&e.asked, -1) < 0 {
		return context.Canceled
	}
	return nil
}
