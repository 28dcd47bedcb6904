package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Terms are the parameters of calls that reserve, commit or release items.
type Terms struct {
	Lease       float64 // Reserve: for how many seconds
	Reservation string  // its name; for Reserve, "" makes one; after that, the one that has items
	All         bool    // Commit, Release: the list was left out, which means all of the reservation

	lease time.Duration
	id    engine.Reservation
}

// nothing is the reservation of a call that has reserved nothing. No store knows it: committing
// or releasing all of it succeeds, and any item of it is lost.
var nothing engine.Reservation

// LeaseError is returned for an invalid lease.
type LeaseError struct{ Msg string }

func (e *LeaseError) Error() string { return e.Msg }

// settle finds out what the terms mean for a filter.
func (t *Terms) settle(op Op, f *engine.Filter) error {
	if _, err := f.Reserving(); err != nil {
		return err
	}
	if op == Reserve {
		lease, err := engine.Lease(t.Lease)
		if err != nil {
			return &LeaseError{err.Error()}
		}
		t.lease, t.id = lease, engine.NewReservation()
		if id, named := engine.ParseReservation(t.Reservation); named {
			t.id = id
		}
		return nil
	}
	id, ok := engine.ParseReservation(t.Reservation)
	if !ok {
		return fmt.Errorf("filter %s: %w", f.Name, engine.ErrNoReservation)
	}
	t.id = id
	return nil
}

func (b *Batch) reserve(ctx context.Context, f *engine.Filter) error {
	got, err := f.Reserve(ctx, b.Terms.id, b.keys, b.Terms.lease, b.IsNew)
	b.New, b.Held = got.Fresh, got.Held
	b.Terms.Reservation = b.Terms.id.String()
	if got.Fresh == 0 {
		b.Terms.Reservation = nothing.String()
	}
	return err
}

func (b *Batch) settle(ctx context.Context, f *engine.Filter) error {
	set, err := f.Reserving()
	if err != nil {
		return err
	}
	keys, lost := b.keys, b.IsLost
	switch {
	case b.Terms.All:
		keys, lost = nil, nil
	case keys == nil: // an empty list does not mean all
		keys = []bloom.Hash{}
	}
	var got engine.Settled
	switch {
	case b.Terms.id == nothing:
		for i := range lost {
			lost[i] = true
		}
		got.Lost = len(lost)
	case b.op == Commit:
		got, err = set.Commit(ctx, b.Terms.id, keys, b.expire, lost)
	default:
		got, err = set.Release(ctx, b.Terms.id, keys, lost)
	}
	b.Lost = got.Lost
	if b.op == Commit {
		b.Committed = got.Done
	} else {
		b.Released = got.Done
	}
	return err
}
