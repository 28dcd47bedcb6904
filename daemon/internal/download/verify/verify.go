// Package verify checks that what a store of the downloader has is what was downloaded: it reads every
// body and compares it with the digest that was stored with it. It changes nothing, and does not
// look into databases, whose own checks its callers run.
package verify

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Source is the part of a store that is read.
type Source interface {
	ListJobs(ctx context.Context) ([]download.Job, error)
	ListData(ctx context.Context, q download.Query, each func(download.Data) error) error
	Body(ctx context.Context, task string) (io.ReadCloser, error)
}

// Damage is something that is not what was stored.
type Damage struct {
	Job   string `json:"job,omitempty"`
	Task  string `json:"task,omitempty"` // "": of all tasks of the job, from the one after the last that was read
	URI   string `json:"uri,omitempty"`
	Fault string `json:"fault"`
}

// Counts is how much was checked.
type Counts struct {
	Jobs    int   `json:"jobs"`
	Bodies  int64 `json:"bodies"`
	Bytes   int64 `json:"bytes"`
	Damaged int64 `json:"damaged"`
}

// Bodies checks the bodies of all jobs, calls found with all that is damaged, and checked with the
// counts after each body. It returns an error if it could not go on.
func Bodies(ctx context.Context, from Source, found func(Damage), checked func(Counts)) (c Counts, err error) {
	jobs, err := from.ListJobs(ctx)
	if err != nil {
		return c, err
	}
	damaged := func(d Damage) {
		c.Damaged++
		found(d)
	}
	for _, job := range jobs {
		var stop error
		err := from.ListData(ctx, download.Query{Job: job.ID}, func(d download.Data) error {
			n, err := read(ctx, from, d.Task)
			c.Bytes += n
			switch {
			case errors.Is(err, download.ErrNoData): // its job has been dropped meanwhile
				return nil
			case ctx.Err() != nil, errors.Is(err, download.ErrUnavailable):
				stop = errors.Join(context.Cause(ctx), err)
				return stop
			case err != nil:
				damaged(Damage{Job: job.Name, Task: d.Task, URI: d.TaskURI, Fault: fault(err)})
			}
			c.Bodies++
			checked(c)
			return nil
		})
		switch {
		case stop != nil || ctx.Err() != nil || errors.Is(err, download.ErrUnavailable):
			return c, errors.Join(stop, err)
		case err != nil:
			damaged(Damage{Job: job.Name, Fault: "its results cannot be read: " + fault(err)})
		}
		c.Jobs++
	}
	return c, nil
}

func read(ctx context.Context, from Source, task string) (int64, error) {
	body, err := from.Body(ctx, task)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, download.UntilDone(ctx, body))
	return n, errors.Join(err, body.Close())
}

// fault is what an error says of a body, in one line.
func fault(err error) string {
	if d := (*download.DamagedError)(nil); errors.As(err, &d) {
		return d.Fault
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
