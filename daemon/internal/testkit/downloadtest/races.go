package downloadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// leaseAtOnce: 16 workers lease the same tasks; each task goes to one of them.
func leaseAtOnce(r *rig) {
	n := r.n(800)
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, n)
	r.handOut(j.ID, n)
	var mu sync.Mutex
	seen := map[string]string{}
	together(16, func(i int) {
		owner := fmt.Sprint(i)
		want := wish(owner, 7)
		for {
			leases, err := r.Lease(ctx, want)
			if err != nil {
				r.Error(err)
				return
			}
			mu.Lock()
			for _, l := range leases {
				if other, ok := seen[l.Task.ID]; ok {
					r.Errorf("%s was leased by %s and %s", l.Task.ID, other, owner)
				}
				seen[l.Task.ID] = owner
				if l.Task.Owner != owner || l.Task.Fence != 1 {
					r.Errorf("%s got %+v", owner, l.Task)
				}
			}
			enough := len(seen) == n
			mu.Unlock()
			if enough {
				return
			}
		}
	})
	r.wantCounts(j.ID, map[download.State]int{download.Running: n})
}

// everythingAtOnce runs dispatchers, workers that fail, give back and stop, sweeps and readers. In
// the end every task has a result or a reason, and as many logs as attempts that have ended.
func everythingAtOnce(r *rig) {
	n := r.n(600)
	j := r.addJob(job("news"))
	var ended atomic.Bool
	rounds := newRounds()
	settled := &sync.Map{} // task to "failed OWNER" or "done SHA256"
	over := func() bool { return ended.Load() || r.Failed() }
	check := func(err error) {
		if err != nil && !errors.Is(err, download.ErrLeaseLost) {
			r.Error(err)
		}
	}
	settle := func(l download.Lease, how string) {
		if old, twice := settled.Swap(l.Task.ID, how); twice {
			r.Errorf("%s was settled twice: %v and %s", l.Task.ID, old, how)
		}
	}
	together(16, func(i int) {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		switch {
		case i < 3: // adds tasks, the same ones as others do
			for k := 0; k < n; k += r.n(50) {
				_, err := r.AddTasks(ctx, j.ID, newTasks(k, r.n(50)))
				check(err)
			}
			for next := rounds.next(); !over(); next = rounds.next() {
				tasks, err := r.HandOut(ctx, j.ID, 40, int64(random.IntN(3)), time.Minute)
				if check(err); len(tasks) == 0 {
					<-next
				}
			}
		case i == 3:
			for !over() {
				r.clock.Advance(15 * time.Second)
				_, err := r.Sweep(ctx, 0)
				check(err)
				counts, err := r.Counts(ctx, j.ID)
				check(err)
				ended.Store(counts[download.Done]+counts[download.Failed] == n)
				rounds.end()
			}
			rounds.end()
		case i == 4:
			for next := rounds.next(); !over(); next = rounds.next() {
				counts, err := r.Counts(ctx, j.ID)
				check(err)
				sum := 0
				for _, c := range counts {
					sum += c
				}
				if sum > n {
					r.Errorf("counts %v: more than %d tasks", counts, n)
				}
				<-next
			}
		default:
			owner := fmt.Sprint(i)
			next := rounds.next()
			for k := 0; !over(); k++ {
				leases, err := r.Lease(ctx, wish(owner, 1+random.IntN(8)))
				if check(err); len(leases) == 0 {
					<-next
				}
				for _, l := range leases {
					switch p := random.IntN(10); {
					case p < 5:
						text := fmt.Sprintf("%s %d %s", owner, k, l.Task.ID)
						if err = r.Finish(ctx, l, result(text), attempt); err == nil {
							settle(l, "done "+sha(text))
						}
					case p < 6 && l.Task.Attempts >= 2:
						if err = r.Fail(ctx, l, download.Attempt{Reason: "no " + owner}, time.Time{}); err == nil {
							settle(l, "failed "+owner)
						}
					case p < 7:
						err = r.GiveBack(ctx, l, time.Time{})
					case p < 8 && l.Task.Attempts < 3:
						err = r.Fail(ctx, l, download.Attempt{Reason: "later"}, r.clock.Now().Add(time.Second))
					case p < 9 || l.Task.Attempts >= 3:
						var lost []string
						if lost, err = r.Renew(ctx, owner, []download.Lease{l}, time.Minute); err == nil && len(lost) == 0 {
							err = r.GiveBack(ctx, l, time.Time{})
						}
					}
					check(err) // otherwise the task is abandoned
				}
				next = rounds.next()
			}
		}
	})
	if r.Failed() {
		return
	}
	tasks := r.tasks(download.Query{Job: j.ID})
	if len(tasks) != n {
		r.Errorf("%d tasks, want %d", len(tasks), n)
	}
	acknowledged := map[string]string{}
	for _, task := range tasks {
		how, ok := settled.Load(task.ID)
		if ok {
			acknowledged[task.ID] = how.(string)
		}
		if task.State != download.Done && task.State != download.Failed || task.State == download.Done && !ok || task.State == download.Failed && task.Reason == "" {
			r.Errorf("%+v is left, or was settled by nobody: %t", task, !ok)
		}
	}
	r.check(acknowledged)
}

// rounds lets callers that found nothing to do wait for the next sweep instead of polling.
type rounds struct {
	mu  sync.Mutex
	now chan struct{}
}

func newRounds() *rounds { return &rounds{now: make(chan struct{})} }

// next returns a channel that is closed when the present round ends. A caller that gets it, and
// then finds that work remains, is sure to see it close.
func (r *rounds) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.now)
	r.now = make(chan struct{})
}

// reopened: what was acknowledged is still there when the store is opened again.
func reopened(r *rig) {
	j, leases := r.leased("news", 5)
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
	r.need(r.Fail(ctx, leases[1], attempt, time.Time{}))
	r.need(r.GiveBack(ctx, leases[2], time.Time{}))
	r.need(r.KeepRefusal(ctx, download.Refusal{Name: "bad", Text: "line 1"}))
	r.handOut(j.ID, 5)
	q := download.Query{Job: j.ID}
	tasks, logs, data := fmt.Sprint(r.tasks(q)), fmt.Sprint(r.logs(q)), fmt.Sprint(r.data(q))
	r.reopen()
	r.wantJob(j)
	if got := fmt.Sprint(r.tasks(q)); got != tasks {
		r.Errorf("tasks\n%s, want\n%s", got, tasks)
	}
	if got := fmt.Sprint(r.logs(q)); got != logs {
		r.Errorf("logs\n%s, want\n%s", got, logs)
	}
	if got := fmt.Sprint(r.data(q)); got != data {
		r.Errorf("data\n%s, want\n%s", got, data)
	}
	if got := r.body(leases[0].Task.ID); got != "text" {
		r.Errorf("body %q", got)
	}
	if refused, err := r.Refusals(ctx, 10); err != nil || len(refused) != 1 {
		r.Errorf("refusals %v, %v", refused, err)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Ready: 1, download.Running: 2, download.Done: 1, download.Failed: 1})
	r.need(r.Finish(ctx, leases[3], result("over the restart"), attempt))
	if l := r.lease(wish("w", 5)); len(l) != 1 || l[0].Task.Fence != 2 {
		r.Errorf("leased %+v: want the fence after that of before", l)
	}
	next := r.addJob(job("next"))
	if next.ID == j.ID {
		r.Error("the number of a job was given again")
	}
}
