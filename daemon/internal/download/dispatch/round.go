package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// errRoleLost ends a round when another dispatcher has taken over.
var errRoleLost = errors.New("another dispatcher has taken over")

// round sweeps, if sweep is set, and hands out.
func (d *Dispatcher) round(ctx context.Context, sweep bool) (Report, error) {
	report := Report{Held: true}
	var errs []error
	began := time.Now()
	if sweep {
		var err error
		if report.Swept, err = d.opt.Store.Sweep(ctx, d.opt.KeepLogs); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err)) // the jobs can have their turn nonetheless
		}
		d.sweptOne(report.Swept)
	}
	jobs, err := d.opt.Store.ListJobs(ctx)
	if err != nil {
		return report, errors.Join(append(errs, fmt.Errorf("list jobs: %w", err))...)
	}
	if report.next, err = d.generate(ctx, jobs); err != nil {
		errs = append(errs, err)
	}
	can, err := download.AbilityIn(ctx, d.opt.Store)
	if err != nil {
		return report, errors.Join(append(errs, fmt.Errorf("workers: %w", err))...)
	}
	lanes := map[download.Lane][]*demand{}
	ready := map[download.Lane]int{}
	for _, job := range jobs {
		if !job.On {
			continue
		}
		counts, err := d.opt.Store.Counts(ctx, job.ID)
		if errors.Is(err, download.ErrNoJob) { // dropped just now
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %s: %w", job.Name, err))
			continue
		}
		lane := job.Setting.Lane
		ready[lane] += counts[download.Ready]
		report.Waiting += counts[download.Waiting]
		report.Ready += counts[download.Ready]
		report.Running += counts[download.Running]
		done, failed := counts[download.Done], counts[download.Failed]
		if open := counts[download.Waiting] + counts[download.Ready] + counts[download.Running]; open == 0 && done+failed != job.Reported && d.opt.Ended != nil {
			d.opt.Ended(job, done, failed)
		}
		outstanding := counts[download.Ready] + counts[download.Running]
		if room := min(counts[download.Waiting], job.Setting.Dispatch-outstanding); room > 0 && !can.Blocks(job) { // else they would only take the places of others
			lanes[lane] = append(lanes[lane], &demand{job: job, room: room, outstanding: outstanding})
		}
	}
	held := began
	for _, lane := range download.Lanes() {
		share(lanes[lane], d.opt.MaxReady-ready[lane])
		for _, demand := range lanes[lane] {
			if demand.n == 0 {
				continue
			}
			if time.Since(held) > roleFor/3 {
				held = time.Now()
				if still, err := d.hold(ctx); err != nil || !still {
					return report, errors.Join(append(errs, err, errRoleLost)...)
				}
			}
			n, err := d.handOut(ctx, demand)
			if err != nil {
				errs = append(errs, fmt.Errorf("job %s: %w", demand.job.Name, err))
			}
			report.HandedOut += n
			report.Waiting -= n
			report.Ready += n
		}
	}
	d.roundDone(report, time.Since(began))
	if report.HandedOut > 0 && d.opt.HandedOut != nil {
		d.opt.HandedOut()
	}
	return report, errors.Join(errs...)
}

// handOut makes ready as many tasks of one job as its demand allows.
func (d *Dispatcher) handOut(ctx context.Context, demand *demand) (int, error) {
	now, err := d.opt.Store.Now(ctx)
	if err != nil {
		return 0, err
	}
	job := demand.job
	tasks, err := d.opt.Store.HandOut(ctx, job.ID, demand.n, Rank(now, job.Setting.Lane, job.Priority), d.opt.ReadyFor)
	if errors.Is(err, download.ErrNoJob) {
		err = nil
	}
	d.handedOut.WithLabelValues(string(job.Setting.Lane)).Add(float64(len(tasks)))
	return len(tasks), err
}

// PriorityStep is the head start that one step of priority gives: a task is leased before all tasks
// of the next lower priority unless they were handed out at least this much earlier.
const PriorityStep = 30 * time.Second

// urgent is the value of the lane urgency, in ms: more than any wait.
const urgent = int64(1) << 50

// Rank is the rank of tasks that are handed out now, see [download.Tasks].
func Rank(now time.Time, lane download.Lane, priority int) int64 {
	rank := now.UnixMilli() - int64(priority)*PriorityStep.Milliseconds()
	if lane == download.Urgency {
		rank -= urgent
	}
	return rank
}

// demand is a job that has waiting tasks.
type demand struct {
	job         download.Job
	room        int // how many more may be handed out
	outstanding int // that are ready or running
	n           int // to be handed out
}

// share gives each job of one lane its n. A job that has nothing outstanding gets one even without
// free places, so that none starves. The remaining places go by priority, and in equal parts to
// jobs of the same priority.
func share(demands []*demand, free int) {
	for _, d := range demands {
		if d.outstanding == 0 && d.room > 0 {
			d.n = 1
			free--
		}
	}
	slices.SortStableFunc(demands, func(a, b *demand) int { return cmp.Compare(b.job.Priority, a.job.Priority) })
	for len(demands) > 0 && free > 0 {
		same := 1
		for same < len(demands) && demands[same].job.Priority == demands[0].job.Priority {
			same++
		}
		free -= level(demands[:same], free)
		demands = demands[same:]
	}
}

// level shares free places in equal parts. It begins with the job that needs the fewest, so that
// the others get what it leaves. It returns how many it gave.
func level(demands []*demand, free int) int {
	byNeed := slices.Clone(demands)
	slices.SortStableFunc(byNeed, func(a, b *demand) int { return cmp.Compare(a.room-a.n, b.room-b.n) })
	given := 0
	for i, d := range byNeed {
		left := len(byNeed) - i
		some := min(d.room-d.n, (free-given+left-1)/left)
		d.n += some
		given += some
	}
	return given
}
