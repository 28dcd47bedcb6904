package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Reasons to cut off a download.
var (
	errStopped = errors.New("the worker is stopped")
	errLost    = errors.New("the lease has ended")
)

// forgetEvery is how often the queue forgets hosts that need not be remembered.
const forgetEvery = time.Minute

// loop is all that a worker knows. Its fields belong to the goroutine of run.
type loop struct {
	*Worker
	// store is the context of calls of the store, which go on while the worker is being stopped.
	store context.Context
	doing sync.WaitGroup // goroutines that pass something to the loop

	queue    *queue
	tasks    map[string]*task // that are leased, by id
	running  int
	pending  int // goroutines that have not passed on their result
	shards   shards
	versions map[version]download.Job

	leasing   bool      // a call is under way
	leaseNext time.Time // not before, unless somebody wakes it
	renewing  bool
	renewNext time.Time
	lateNext  time.Time
	forget    time.Time

	stopping bool
	stopBy   time.Time // downloads may go on until then
}

type version struct {
	job int64
	n   int
}

func newLoop(w *Worker, ctx context.Context) *loop {
	return &loop{Worker: w, store: context.WithoutCancel(ctx), queue: newQueue(), tasks: map[string]*task{},
		shards: newShards(), versions: map[version]download.Job{}}
}

// run handles events until all has ended.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		next := l.step(time.Now())
		l.Worker.running.Set(float64(l.running))
		l.Worker.queued.Set(float64(l.queue.n))
		l.Worker.metrics.shards.Set(float64(len(l.shards.held)))
		if l.stopping && l.pending == 0 && len(l.tasks) == 0 {
			break
		}
		timer.Reset(max(0, time.Until(next)))
		select {
		case event := <-l.events:
			event(l)
		case <-l.wake:
			l.leaseNext = time.Time{}
		case <-timer.C:
		case <-stop:
			stop = nil
			patience := l.opt.Patience
			if errors.Is(context.Cause(ctx), ErrAtOnce) {
				patience = 0
			}
			l.stop(time.Now(), patience)
		}
	}
	l.doing.Wait()
	l.leave()
}

// spawn runs f in a goroutine; the loop then runs the function that f returns.
func (l *loop) spawn(f func() func(*loop)) {
	l.pending++
	l.doing.Go(func() {
		done := f()
		l.events <- func(l *loop) {
			l.pending--
			done(l)
		}
	})
}

// step does all that can be done now, and returns when to call it next if nothing happens before.
func (l *loop) step(now time.Time) time.Time {
	next := now.Add(forgetEvery)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if l.stopping && !now.Before(l.stopBy) {
		l.cutOff(errStopped)
		l.stopBy = now.Add(forgetEvery)
	}
	if l.stopping {
		sooner(l.stopBy)
	}
	sooner(l.stepShards(now))
	sooner(l.stepRenew(now))
	for l.running < l.opt.Concurrency && !l.stopping {
		t, at := l.queue.next(now)
		if t == nil {
			if !at.IsZero() {
				sooner(at)
			}
			break
		}
		l.begin(t)
	}
	if !l.stopping {
		sooner(l.stepLate(now))
		sooner(l.stepLease(now))
	}
	if !now.Before(l.forget) {
		l.queue.forget(now)
		l.forget = now.Add(forgetEvery)
	}
	return next
}

// stepLease asks for tasks when there is room for a good part of them.
func (l *loop) stepLease(now time.Time) time.Time {
	never := now.Add(forgetEvery)
	room := l.opt.Window - len(l.tasks)
	if l.leasing || room < l.minRoom() || len(l.shards.held) == 0 {
		return never
	}
	if now.Before(l.leaseNext) {
		return l.leaseNext
	}
	want := download.Want{Owner: l.opt.Owner, Max: room, For: l.opt.LeaseFor, Shards: l.shards.served(), Lanes: l.opt.Lanes, Has: l.opt.Has,
		Enough: l.queue.enough(now, now.Add(l.opt.Bound))}
	if len(want.Shards) == 0 {
		return never
	}
	l.leasing = true
	l.leaseNext = now.Add(l.opt.Poll)
	known := l.versions
	l.versions = nil // the goroutine has it
	l.spawn(func() func(*loop) {
		leases, err := l.opt.Store.Lease(l.store, want)
		if err != nil {
			l.storeFailed("lease", err)
		}
		jobs := l.jobsOf(leases, known)
		return func(l *loop) {
			l.leasing = false
			l.versions = known
			for _, lease := range leases {
				job, ok := jobs[lease.Task.ID]
				l.enqueue(lease, job, ok, now.Add(want.For))
			}
			if err == nil && len(leases) == want.Max {
				l.leaseNext = time.Time{}
			} else if err == nil && l.opt.Idle != nil {
				l.opt.Idle()
			}
		}
	})
	return never
}

// minRoom is the number of tasks for which a call of the store is worth it.
func (l *loop) minRoom() int { return max(1, l.opt.Concurrency/4) }

// maxVersions is how many versions of jobs are remembered.
const maxVersions = 1000

// jobsOf finds the jobs of leases, by the id of the task, and remembers them in known. Tasks whose
// job was dropped, or cannot be read, are missing.
func (l *loop) jobsOf(leases []download.Lease, known map[version]download.Job) map[string]download.Job {
	jobs := map[string]download.Job{}
	bad := map[version]bool{}
	for _, lease := range leases {
		v := version{lease.Task.Job, lease.Version}
		job, ok := known[v]
		if !ok && !bad[v] {
			var err error
			if job, err = l.opt.Store.JobVersion(l.store, v.job, v.n); err == nil {
				if len(known) >= maxVersions {
					clear(known)
				}
				known[v], ok = job, true
			} else {
				bad[v] = true
				if !errors.Is(err, download.ErrNoJob) {
					l.storeFailed("lease", err)
				}
			}
		}
		if ok {
			jobs[lease.Task.ID] = job
		}
	}
	return jobs
}

// enqueue queues a task that was leased, or gives it back if it cannot be done here.
func (l *loop) enqueue(lease download.Lease, job download.Job, ok bool, until time.Time) {
	t := &task{lease: lease, job: job, host: download.HostOf(lease.Task.URI), until: until, cancel: func(error) {}}
	if of := lease.Task.Script(); of != download.ScriptDownload {
		t.script, t.host = true, string(of)+":"+job.Name // neither a host nor a spelling of one
	}
	l.tasks[lease.Task.ID] = t
	since, held := l.shards.serves(lease.Task.Shard)
	if l.stopping || !held || !ok {
		l.giveBack(t, time.Time{})
		return
	}
	l.queue.add(t, since)
}

// begin starts the download of a task.
func (l *loop) begin(t *task) {
	ctx, cancel := context.WithCancelCause(l.store)
	t.cancel = cancel
	l.running++
	l.spawn(func() func(*loop) {
		defer cancel(nil)
		l.attempts.WithLabelValues(l.attempt(ctx, t)).Inc()
		return func(l *loop) {
			l.running--
			l.gone(t)
		}
	})
}

// gone forgets a task.
func (l *loop) gone(t *task) {
	if l.tasks[t.lease.Task.ID] == t {
		delete(l.tasks, t.lease.Task.ID)
	}
	if !l.leaseNext.IsZero() && l.opt.Idle != nil && !l.stopping {
		l.opt.Idle() // its job may have more tasks, for which there was no room
	}
	l.shards.left(l, t.lease.Task.Shard)
}

// giveBack gives back a task that has not begun, and is no longer in the queue.
func (l *loop) giveBack(t *task, notBefore time.Time) {
	l.spawn(func() func(*loop) {
		l.attempts.WithLabelValues(l.settleBack(t, notBefore)).Inc()
		return func(l *loop) { l.gone(t) }
	})
}

// stop begins the end: waiting tasks are given back.
func (l *loop) stop(now time.Time, patience time.Duration) {
	l.stopping, l.stopBy = true, now.Add(patience)
	l.opt.Log.Info("worker stops", "running", l.running, "queued", l.queue.n)
	for _, t := range l.tasks {
		if l.queue.remove(t) {
			l.giveBack(t, time.Time{})
		}
	}
}
