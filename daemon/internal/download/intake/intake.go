// Package intake makes tasks of URIs that come in, from callers or from the code of jobs, but
// only of those that the job's filter does not know.
package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
)

// Store is the part of a [download.Store] that is needed.
type Store interface {
	AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error)
	Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error)
	LetGo(ctx context.Context, owner string, names []string) error
}

// Intake adds tasks. It is safe for concurrent use.
type Intake struct {
	store  Store
	filter seen.Filter
	owner  string
	adding chan struct{} // has an element from the question to a filter until the filter is told the answer
}

// New makes an Intake; a process has one. Two that ask a filter at once would both be told "new".
// If other processes with this store ask the same filters, each needs an owner name, under which it
// holds its turn in the store. The owner is "" if there are no others.
func New(store Store, filter seen.Filter, owner string) *Intake {
	return &Intake{store: store, filter: filter, owner: owner, adding: make(chan struct{}, 1)}
}

// rememberIn is how long filters may take to remember stored tasks, even if the caller has gone meanwhile.
const rememberIn = time.Minute

// Count counts what became of URIs.
type Count struct {
	Added int // are now tasks
	Seen  int // the job's filter knew them
	Known int // were tasks of the job before, or came twice
}

// FilterError is an error of a filter.
type FilterError struct{ Err error }

func (e *FilterError) Error() string { return fmt.Sprintf("filter: %v", e.Err) }
func (e *FilterError) Unwrap() error { return e.Err }

// Add makes tasks of those URIs that the job's filter does not know. The filter is told after the
// tasks are durable: a crash in between costs an extra question, but never a URI. After an error it
// is safe to add all of them again. Errors are those of the store, or a *FilterError.
func (i *Intake) Add(ctx context.Context, j download.Job, tasks []download.NewTask) (Count, error) {
	return i.AddThrough(ctx, j, []string{j.Filter}, tasks)
}

// AddThrough is Add with other filters than the job's, asked one after the other. Each filter is
// asked about, and remembers, only the URIs that were new to the filter before it. "" is none. A
// run of parse is represented by the URI of its page.
func (i *Intake) AddThrough(ctx context.Context, j download.Job, filters []string, tasks []download.NewTask) (Count, error) {
	if len(tasks) == 0 {
		return Count{}, nil
	}
	filters = slices.DeleteFunc(slices.Clone(filters), func(name string) bool { return name == "" })
	if len(filters) == 0 {
		return i.addUnseen(ctx, j, nil, tasks)
	}
	select {
	case i.adding <- struct{}{}:
	case <-ctx.Done():
		return Count{}, context.Cause(ctx)
	}
	defer func() { <-i.adding }()
	var count Count
	err := i.locked(ctx, filters, func(ctx context.Context) (err error) {
		count, err = i.addUnseen(ctx, j, filters, tasks)
		return err
	})
	return count, err
}

// addUnseen makes tasks of those that the filters do not know, and has the filters remember them.
func (i *Intake) addUnseen(ctx context.Context, j download.Job, filters []string, tasks []download.NewTask) (Count, error) {
	all := len(tasks)
	fresh := make([][]string, len(filters)) // URIs that were new to each filter
	for n, filter := range filters {
		var err error
		if tasks, err = i.unseen(ctx, filter, tasks); err != nil {
			return Count{}, &FilterError{err}
		}
		fresh[n] = urisOf(tasks)
	}
	added, err := i.store.AddTasks(ctx, j.ID, tasks)
	if err != nil {
		return Count{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rememberIn)
	defer cancel()
	for n, filter := range slices.Backward(filters) { // the first filter last: while it says "new", the others are asked, too
		if len(fresh[n]) == 0 {
			continue
		}
		if err := i.filter.Remember(ctx, filter, fresh[n]); err != nil {
			return Count{}, &FilterError{err}
		}
	}
	return Count{Added: added, Seen: all - len(tasks), Known: len(tasks) - added}, nil
}

// unseen returns the tasks whose URIs are new to a filter.
func (i *Intake) unseen(ctx context.Context, filter string, tasks []download.NewTask) ([]download.NewTask, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	fresh, err := i.filter.Check(ctx, filter, urisOf(tasks))
	if err != nil {
		return nil, err
	}
	var left []download.NewTask
	for n, is := range fresh {
		if is {
			left = append(left, tasks[n])
		}
	}
	return left, nil
}

func urisOf(tasks []download.NewTask) []string {
	uris := make([]string, len(tasks))
	for i, t := range tasks {
		uris[i] = download.PageOf(t.URI)
	}
	return uris
}

const (
	// lockPrefix with the name of a filter is the name that a process holds in the store while it
	// adds tasks about which it has asked this filter.
	lockPrefix = "intake/"
	// lockFor is how long the name is held without renewal: so long others wait for a killed holder.
	lockFor = 15 * time.Second
	// letGoIn is how long releasing it may take.
	letGoIn = 5 * time.Second
	// A caller that finds it held retries after a pause that doubles, varied by up to a half.
	firstPause = 5 * time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// errLockLost ends an operation under a lock that this process may have lost.
var errLockLost = errors.New("this process could not renew its turn at the filter: send the same request again")

// locked runs do while no other process asks those filters. Its ctx ends when the turn may be another's.
func (i *Intake) locked(ctx context.Context, filters []string, do func(context.Context) error) error {
	if i.owner == "" {
		return do(ctx)
	}
	names := make([]string, len(filters))
	for n, filter := range filters {
		names[n] = lockPrefix + filter
	}
	slices.Sort(names)
	names = slices.Compact(names)
	until, err := i.lock(ctx, names)
	if err != nil {
		return err
	}
	defer i.letGo(ctx, names)
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		i.renew(ctx, cancel, names, until)
	}()
	err = do(ctx)
	if errors.Is(context.Cause(ctx), errLockLost) && err != nil {
		err = fmt.Errorf("%w (%w)", errLockLost, err)
	}
	cancel(nil)
	<-renewed
	return err
}

// letGo passes the turn on. If it fails, the turn expires.
func (i *Intake) letGo(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoIn)
	defer cancel()
	_ = i.store.LetGo(ctx, i.owner, names)
}

// lock waits for the turn of this process at all filters, and returns when the turn ends, by the clock of
// this process. If it gets only some of them, it releases these and retries, so that there is no deadlock.
func (i *Intake) lock(ctx context.Context, names []string) (time.Time, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		asked := time.Now()
		held, err := i.store.Hold(ctx, i.owner, names, lockFor)
		if err != nil {
			return time.Time{}, err
		}
		if len(held) == len(names) {
			return asked.Add(lockFor), nil
		}
		if len(held) > 0 {
			i.letGo(ctx, held)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// renew keeps the turn until ctx ends, and calls lose when the turn may have passed to another.
func (i *Intake) renew(ctx context.Context, lose context.CancelCauseFunc, names []string, until time.Time) {
	lost := time.AfterFunc(time.Until(until), func() { lose(errLockLost) })
	defer lost.Stop()
	every := time.NewTicker(lockFor / 3)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		held, err := i.store.Hold(ctx, i.owner, names, lockFor)
		switch {
		case err != nil: // the next call may succeed, or the turn expires
		case len(held) < len(names):
			lose(errLockLost)
			return
		default:
			lost.Reset(time.Until(asked.Add(lockFor)))
		}
	}
}
