package dispatch

import (
	"context"
	"errors"
	"fmt"
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
		if room := min(counts[download.Waiting], job.Setting.Dispatch-outstanding); room > 0 {
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
