package embedded

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// itemWork is what an item takes while its batch is carried out: its key and its place in the order
// of the table's parts, and its entry in the journal.
const itemWork = 16 + 4 + 32 + 4

// turns bounds the memory of the batches that are carried out at once. What a batch has while it waits,
// its body and its keys, is counted by those who received it.
type turns struct {
	limit int64 // bytes; 0: none
	left  *semaphore.Weighted
}

func newTurns(limit int64) turns { return turns{limit, semaphore.NewWeighted(limit)} }

// begin waits until a batch of n items may be carried out, and returns what it takes, for end. One that is
// larger than the limit is carried out alone. A batch waits for a disk at most, so its caller's patience is
// not asked.
func (t *turns) begin(n int) (bytes int64) {
	bytes = min(int64(n)*itemWork, t.limit)
	if bytes > 0 {
		_ = t.left.Acquire(context.Background(), bytes)
	}
	return bytes
}

func (t *turns) end(bytes int64) {
	if bytes > 0 {
		t.left.Release(bytes)
	}
}
