// Package intake makes tasks of URIs that come in, from callers or from the code of jobs: those
// alone that the job's filter does not know.
package intake

import (
	"context"
	"fmt"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
)

// Store is what is needed of a [download.Store].
type Store interface {
	AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error)
}

// Intake adds tasks. It is safe for concurrent use.
type Intake struct {
	store  Store
	filter seen.Filter
	adding sync.Mutex // between the question to a filter and its being told
}

// New makes an Intake. Of a process there should be one: two that ask at once are both told "new".
func New(store Store, filter seen.Filter) *Intake { return &Intake{store: store, filter: filter} }

// Count tells what became of URIs.
type Count struct {
	Added int // are tasks now
	Seen  int // the job's filter knew them
	Known int // were tasks of the job before, or were there twice
}

// FilterError is an error of a filter.
type FilterError struct{ Err error }

func (e *FilterError) Error() string { return fmt.Sprintf("filter: %v", e.Err) }
func (e *FilterError) Unwrap() error { return e.Err }

// Add makes tasks of a job. The filter is told after the tasks are durable: a crash in between costs
// a question, and never a URI. To add all of them again after an error does no harm. Errors are those
// of AddTasks, or a *FilterError.
func (i *Intake) Add(ctx context.Context, j download.Job, tasks []download.NewTask) (Count, error) {
	all := len(tasks)
	if all == 0 {
		return Count{}, nil
	}
	if j.Filter != "" {
		i.adding.Lock()
		defer i.adding.Unlock()
		fresh, err := i.filter.Check(ctx, j.Filter, urisOf(tasks))
		if err != nil {
			return Count{}, &FilterError{err}
		}
		var left []download.NewTask
		for n, is := range fresh {
			if is {
				left = append(left, tasks[n])
			}
		}
		tasks = left
	}
	added, err := i.store.AddTasks(ctx, j.ID, tasks)
	if err != nil {
		return Count{}, err
	}
	if j.Filter != "" && len(tasks) > 0 {
		if err := i.filter.Remember(ctx, j.Filter, urisOf(tasks)); err != nil {
			return Count{}, &FilterError{err}
		}
	}
	return Count{Added: added, Seen: all - len(tasks), Known: len(tasks) - added}, nil
}

func urisOf(tasks []download.NewTask) []string {
	uris := make([]string, len(tasks))
	for i, t := range tasks {
		uris[i] = t.URI
	}
	return uris
}
