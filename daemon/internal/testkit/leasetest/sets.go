package leasetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Set is a Caller for a filter in this process.
type Set struct{ engine.Reserving }

func (s Set) keys(items []int) (keys []bloom.Hash) {
	for _, n := range items {
		keys = append(keys, bloom.Sum(s.Seed(), fmt.Appendf(nil, "https://example.com/leased/%d", n)))
	}
	return keys
}

// outcome translates an error into those of this package.
func outcome(err error) error {
	switch {
	case errors.Is(err, engine.ErrInDoubt):
		return errors.Join(ErrUnknown, err)
	case errors.Is(err, engine.ErrUnavailable):
		return errors.Join(ErrNothing, err)
	}
	return err
}

// Reserve implements Caller.
func (s Set) Reserve(items []int, lease time.Duration) (given []bool, name string, err error) {
	id, given := engine.NewReservation(), make([]bool, len(items))
	_, err = s.Reserving.Reserve(context.Background(), id, s.keys(items), lease, given)
	return given, id.String(), outcome(err)
}

// Settle implements Caller.
func (s Set) Settle(commit bool, name string, items []int) (lost []bool, err error) {
	id, _ := engine.ParseReservation(name)
	lost = make([]bool, len(items))
	if commit {
		_, err = s.Commit(context.Background(), id, s.keys(items), 0, lost)
	} else {
		_, err = s.Release(context.Background(), id, s.keys(items), lost)
	}
	return lost, outcome(err)
}

// Add implements Caller.
func (s Set) Add(items []int) (fresh []bool, err error) {
	fresh = make([]bool, len(items))
	_, err = s.Reserving.Add(context.Background(), s.keys(items), fresh)
	return fresh, outcome(err)
}
