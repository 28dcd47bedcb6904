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
	// lockPrefix and the name of a filter are the name that a process holds in the store while it adds
	// tasks that this filter was asked about.
	lockPrefix = "intake/"
	// lockFor is how long it is held without being renewed: so long others wait for one that was killed.
	lockFor = 15 * time.Second
	// letGoIn is how long giving it back may take.
	letGoIn = 5 * time.Second
	// A caller that finds it held asks again after a pause that doubles, give or take a half.
	firstPause = 5 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// errLockLost ends what was begun under a lock that this process may not have any more.
var errLockLost = errors.New("this process could not renew its turn at the filter: send the same request again")

// locked has do add tasks while no other process asks one of those filters. The ctx of do ends when the turn may be another's.
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

// letGo lets others have their turn. If it fails, the turn ends by itself.
func (i *Intake) letGo(ctx context.Context, names []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoIn)
	defer cancel()
	_ = i.store.LetGo(ctx, i.owner, names)
}

// lock waits for the turn of this process at all filters, and tells until when it lasts, by the clock of this
// process. A caller that gets only some of them releases these and asks again, so that there is no deadlock.
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

// renew keeps the turn until ctx ends, and ends it when the turn may be another's.
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
		case err != nil: // the next call may succeed, or it is lost in time
		case len(held) < len(names):
			lose(errLockLost)
			return
		default:
			lost.Reset(time.Until(asked.Add(lockFor)))
		}
	}
}
