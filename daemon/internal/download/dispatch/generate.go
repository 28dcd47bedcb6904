package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// generate makes tasks of the runs of generate that are due, and returns the time until the next
// one, 0 if there is none. Due runs are not recorded: a run is named by its time, so that making it
// again, after a restart or beside another dispatcher, is idempotent. Of missed runs only the
// newest is made, and a run waits until the previous one has ended.
func (d *Dispatcher) generate(ctx context.Context, jobs []download.Job) (next time.Duration, err error) {
	runs := map[int64]string{}
	defer func() { d.runs = runs }()
	var errs []error
	for _, job := range jobs {
		if !job.On || job.Setting.Generate.Code.Text == "" {
			continue
		}
		now, err := d.opt.Store.Now(ctx)
		if err != nil {
			return next, errors.Join(append(errs, err)...)
		}
		var at time.Time
		if every := job.Setting.Generate.Every; every > 0 {
			at = now.UTC().Truncate(every)
			if wait := at.Add(every).Sub(now); next == 0 || wait < next {
				next = wait
			}
		}
		last := d.runs[job.ID]
		if last, err = d.makeRun(ctx, job, last, job.GenerateRun(at)); err != nil {
			errs = append(errs, fmt.Errorf("job %s: generate: %w", job.Name, err))
		}
		runs[job.ID] = last
	}
	return next, errors.Join(errs...)
}

// makeRun makes a task of a run, unless it equals the last one, or the last one has not ended. In
// these cases it returns the URI of the last one, "" if it is not known.
func (d *Dispatcher) makeRun(ctx context.Context, job download.Job, last string, run download.NewTask) (string, error) {
	if last == "" { // another dispatcher may have made it
		var err error
		if last, err = d.openRun(ctx, job); err != nil {
			return "", err
		}
	}
	if last == run.URI {
		return last, nil
	}
	open := false
	if last != "" {
		q := download.Query{Job: job.ID, Task: download.TaskID(job.ID, last)}
		err := d.opt.Store.ListTasks(ctx, q, func(t download.Task) error {
			open = t.State != download.Done && t.State != download.Failed
			return nil
		})
		if err != nil || open {
			return last, err
		}
	}
	if _, err := d.opt.Store.AddTasks(ctx, job.ID, []download.NewTask{run}); err != nil {
		if errors.Is(err, download.ErrNoJob) { // dropped just now
			err = nil
		}
		return last, err
	}
	return run.URI, nil
}

// openRun returns a run of a job that is handed out and has not ended, "" if there is none. One that waits for another
// attempt is found when it is handed out again.
func (d *Dispatcher) openRun(ctx context.Context, job download.Job) (open string, err error) {
	for _, state := range []download.State{download.Ready, download.Running} {
		err = errors.Join(err, d.opt.Store.ListTasks(ctx, download.Query{Job: job.ID, State: state}, func(t download.Task) error {
			if t.Script() == download.ScriptGenerate {
				open = t.URI
			}
			return nil
		}))
	}
	return open, err
}
