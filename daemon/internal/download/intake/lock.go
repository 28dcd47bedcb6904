package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

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
	mostPause  = 250 * time.Millisecond
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
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
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
