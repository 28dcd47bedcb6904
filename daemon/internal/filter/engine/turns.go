package engine

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Working is a Set whose batches take memory of this machine while they are carried out.
type Working interface {
	Set
	// WorkFor returns how many bytes a batch of so many items takes at most, beside those of its body and its
	// keys, which are counted where it was received.
	WorkFor(items int) int64
}

// turns bounds the memory of the batches that are carried out at once.
type turns struct {
	limit int64 // bytes; 0: none
	left  *semaphore.Weighted
}

func newTurns(limit int64) *turns { return &turns{limit, semaphore.NewWeighted(limit)} }

// Begin waits until a batch of so many items may be carried out, and returns what it takes, for End. One that
// takes more than all batches may is carried out alone. The error is that of ctx.
func (f *Filter) Begin(ctx context.Context, items int) (work int64, err error) {
	set, ok := f.Set.(Working)
	if !ok || f.turns.limit <= 0 {
		return 0, nil
	}
	work = min(set.WorkFor(items), f.turns.limit)
	return work, f.turns.left.Acquire(ctx, work)
}

// End ends what Begin began, if that returned no error.
func (f *Filter) End(work int64) {
	if work > 0 {
		f.turns.left.Release(work)
	}
}
